package dev.sparksql.lookups;

import java.io.Closeable;
import java.io.IOException;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.math.BigDecimal;
import java.sql.Date;
import java.sql.Timestamp;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.IntStream;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructType;

/**
 * Some columns of an Iceberg table in all its versions, of which rows are read by their keys.
 *
 * <p>It is sent to executors for each batch, and looks then which versions there are: all tasks of a batch see the same ones. Values of a
 * key are in the form of LookupTable. Iceberg is called by reflection, because an image need not have it.
 */
public final class AsOfTable implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final String ICEBERG = "org.apache.iceberg.";

  private final String name;
  private final StructType columns;
  private final int[] keys;
  private final transient Object live; // the table of the catalog, on the driver
  private Object table; // as it was when it was sent
  private long[] times; // since when each snapshot was the table's, in milliseconds since 1970
  private long[] snapshots;
  private boolean isWhole; // whether the first of them is the table's first
  private Set<Long> kept;

  private AsOfTable(Object live, String name, StructType columns, int[] keys) {
    this.live = live;
    this.name = name;
    this.columns = columns;
    this.keys = keys;
  }

  /** Returns the columns of a table of Iceberg, of which `keys` are some by their number. */
  public static AsOfTable of(Object table, String name, StructType columns, List<Integer> keys) {
    return new AsOfTable(table, name, columns, keys.stream().mapToInt(Integer::intValue).toArray());
  }

  int width() {
    return columns.length();
  }

  int keyWidth() {
    return keys.length;
  }

  private void writeObject(ObjectOutputStream out) throws IOException {
    if (live != null) {
      look();
    }
    out.defaultWriteObject();
  }

  private synchronized void look() {
    call(live, "Table", "refresh");
    List<?> history = (List<?>) call(live, "Table", "history");
    times = history.stream().mapToLong(each -> (long) call(each, "HistoryEntry", "timestampMillis")).toArray();
    snapshots = history.stream().mapToLong(each -> (long) call(each, "HistoryEntry", "snapshotId")).toArray();
    kept = new HashSet<>();
    Object first = null;
    for (Object snapshot : (Iterable<?>) call(live, "Table", "snapshots")) {
      kept.add((Long) call(snapshot, "Snapshot", "snapshotId"));
      first = snapshots.length > 0 && snapshots[0] == (long) call(snapshot, "Snapshot", "snapshotId") ? snapshot : first;
    }
    isWhole = snapshots.length == 0 || first != null && call(first, "Snapshot", "parentId") == null;
    table = invoked(null, method(type("SerializableTable"), "copyOf", type("Table")), live);
  }

  /** Returns the snapshot that was the table's at a time, null for none. Throws LookupException for one that is not there any more. */
  Long snapshotAt(long millis) {
    int place = IntStream.range(0, times.length).filter(index -> times[index] <= millis).reduce((one, other) -> other).orElse(-1);
    if (place < 0 && isWhole) {
      return null;
    }
    if (place < 0 || !kept.contains(snapshots[place])) {
      throw new ExpiredVersionException(name, Instant.ofEpochMilli(millis));
    }
    return snapshots[place];
  }

  /** Adds the rows of a snapshot with these keys, which begin with its number. */
  void read(long snapshot, List<List<Object>> wanted, Map<List<Object>, List<Row>> found) {
    Set<List<Object>> asked = new HashSet<>(wanted);
    Object then = schemaOf(snapshot);
    Object schema = projection(then);
    Object scan = invoked(null, method(type("data.IcebergGenerics"), "read", type("Table")), table);
    Class<?> builder = type("data.IcebergGenerics$ScanBuilder");
    invoked(scan, method(builder, "useSnapshot", long.class), snapshot);
    invoked(scan, method(builder, "project", type("Schema")), schema);
    for (int index = 0; index < keys.length; index++) {
      String column = nameIn(then, field(keys[index]));
      if (column != null) { // else its rows have no such value, or the default of all of them, and are compared below
        invoked(scan, method(builder, "where", type("expressions.Expression")), isIn(index, column, wanted));
      }
    }
    Rows rows = new Rows(call(schema, "Schema", "asStruct"));
    try (Closeable read = (Closeable) invoked(scan, method(builder, "build"))) {
      for (Object record : (Iterable<?>) read) {
        Row row = rows.of(record);
        List<Object> values = LookupTable.keyOf(row, keys);
        if (values != null) {
          List<Object> key = new ArrayList<>(values.size() + 1);
          key.add(snapshot);
          key.addAll(values);
          if (asked.contains(key)) {
            found.computeIfAbsent(key, unused -> new ArrayList<>(1)).add(row);
          }
        }
      }
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
  }

  /** The schema of a snapshot: Iceberg reads conditions on it by the names that its columns had then. */
  private Object schemaOf(long snapshot) {
    Object found = invoked(table, method(type("Table"), "snapshot", long.class), snapshot);
    Object number = call(found, "Snapshot", "schemaId");
    Object schema = number == null ? null : ((Map<?, ?>) call(table, "Table", "schemas")).get(number);
    return schema == null ? call(table, "Table", "schema") : schema;
  }

  /** The columns by their ids: with the types that they have now, and the names that they had then. */
  private Object projection(Object then) {
    Class<?> type = type("types.Types$NestedField");
    Class<?> builder = type("types.Types$NestedField$Builder");
    List<Object> fields = new ArrayList<>(columns.length());
    for (int place = 0; place < columns.length(); place++) {
      Object field = field(place);
      String name = nameIn(then, field);
      Object made = invoked(null, method(type, "from", type), field);
      made = invoked(made, method(builder, "withName", String.class), name == null ? "added " + place : name);
      fields.add(invoked(made, method(builder, "build")));
    }
    try {
      return type("Schema").getConstructor(List.class).newInstance(fields);
    } catch (ReflectiveOperationException other) {
      throw unknown(other);
    }
  }

  private Object field(int place) {
    Method find = method(type("Schema"), "findField", String.class);
    return invoked(call(table, "Table", "schema"), find, columns.apply(place).name());
  }

  /** The name of a column in a schema, null where it has none of its id. */
  private static String nameIn(Object schema, Object field) {
    Object number = call(field, "types.Types$NestedField", "fieldId");
    return (String) invoked(schema, method(type("Schema"), "findColumnName", int.class), number);
  }

  /** Iceberg's expression for a column with one of the values that the keys have. */
  private Object isIn(int index, String column, List<List<Object>> wanted) {
    Set<Object> values = new HashSet<>();
    for (List<Object> key : wanted) {
      values.add(literal(index, key.get(index + 1)));
    }
    values.remove(null); // what the column cannot be is in no row
    return invoked(null, method(type("expressions.Expressions"), "in", String.class, Iterable.class), column, values);
  }

  private Object literal(int index, Object value) {
    if (value instanceof BigDecimal number) {
      DecimalType type = (DecimalType) columns.apply(keys[index]).dataType();
      return number.scale() > type.scale() ? null : number.setScale(type.scale());
    }
    if (value instanceof Date date) {
      return date.toLocalDate().toString();
    }
    if (value instanceof Timestamp stamp) {
      return micros(stamp.toInstant());
    }
    return value instanceof LocalDateTime local ? (Object) micros(local.toInstant(ZoneOffset.UTC)) : value;
  }

  private static long micros(Instant instant) {
    return Math.addExact(Math.multiplyExact(instant.getEpochSecond(), 1_000_000L), instant.getNano() / 1_000L);
  }

  /** Iceberg's records as rows of Spark, whose form of dates and times hangs on a setting. */
  private final class Rows {
    private final Object view;
    private final Method shows;

    private Rows(Object struct) {
      Class<?> type = type("spark.source.StructInternalRow");
      try {
        Constructor<?> made = type.getDeclaredConstructor(type("types.Types$StructType"));
        made.setAccessible(true);
        view = made.newInstance(struct);
      } catch (ReflectiveOperationException other) {
        throw unknown(other);
      }
      shows = method(type, "setStruct", type("StructLike"));
      shows.setAccessible(true);
    }

    /** Where rows are deleted, records have further columns behind these: the place in the file, or what a delete names. */
    private Row of(Object record) {
      InternalRow whole = (InternalRow) invoked(view, shows, record);
      Object[] values = new Object[columns.length()];
      for (int place = 0; place < values.length; place++) {
        values[place] = whole.isNullAt(place) ? null : whole.get(place, columns.apply(place).dataType());
      }
      return (Row) CatalystTypeConverters.convertToScala(new GenericInternalRow(values), columns);
    }
  }

  private static Object call(Object target, String type, String name) {
    return invoked(target, method(type(type), name));
  }

  private static Class<?> type(String name) {
    try {
      return Class.forName(ICEBERG + name);
    } catch (ClassNotFoundException absent) {
      throw unknown(absent);
    }
  }

  private static Method method(Class<?> type, String name, Class<?>... parameters) {
    try {
      return type.getMethod(name, parameters);
    } catch (NoSuchMethodException absent) {
      throw unknown(absent);
    }
  }

  private static Object invoked(Object target, Method method, Object... arguments) {
    try {
      return method.invoke(target, arguments);
    } catch (InvocationTargetException thrown) {
      if (thrown.getCause() instanceof RuntimeException own) {
        throw own;
      }
      throw new IllegalStateException(thrown.getCause());
    } catch (IllegalAccessException other) {
      throw unknown(other);
    }
  }

  private static IllegalStateException unknown(ReflectiveOperationException failed) {
    return new IllegalStateException("this Iceberg is not one that is known: " + failed.getMessage(), failed);
  }

  @Override
  public String toString() {
    return "versions of " + name;
  }
}
