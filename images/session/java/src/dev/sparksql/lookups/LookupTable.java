package dev.sparksql.lookups;

import java.io.Serializable;
import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.Date;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Timestamp;
import java.sql.Types;
import java.time.Instant;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions;
import org.apache.spark.sql.execution.datasources.jdbc.JdbcUtils;
import org.apache.spark.sql.jdbc.JdbcDialect;
import org.apache.spark.sql.jdbc.JdbcDialects;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;

/**
 * Some columns of a table in a database, of which rows are read by their keys.
 *
 * <p>Values of a key are those that Spark gives for a row, in one form for one value: see `keyValue`. No error that it throws
 * has the driver's exception as its cause, nor a secret option or the address in its message: it is shown and logged.
 */
public final class LookupTable implements Serializable {
  private static final long serialVersionUID = 1L;

  /** Parameters of one statement: PostgreSQL's protocol counts them in 16 bits. */
  private static final int MAX_PARAMETERS = 65_535;

  /** Options of Spark's whose values are no secrets; those of any other are left out of messages. */
  private static final Set<String> SHOWN =
      Set.of(
          "batchsize", "dbtable", "driver", "fetchsize", "isolationlevel", "lowerbound", "numpartitions", "partitioncolumn",
          "prefertimestampntz", "pushdownaggregate", "pushdownlimit", "pushdownoffset", "pushdownpredicate", "pushdowntablesample",
          "query", "querytimeout", "upperbound", "user");

  private final JDBCOptions options;
  private final String name;
  private final StructType columns;
  private final int[] keys;
  private final int[] keyTypes;
  private final boolean[] areUuids;

  private LookupTable(JDBCOptions options, String name, StructType columns, int[] keys, int[] keyTypes, boolean[] areUuids) {
    this.options = options;
    this.name = name;
    this.columns = columns;
    this.keys = keys;
    this.keyTypes = keyTypes;
    this.areUuids = areUuids;
  }

  /**
   * A table whose columns, of which `keys` are some by their number, can be read so: the database is asked. Throws LookupException
   * when it does not answer, or refuses.
   */
  public static LookupTable of(JDBCOptions options, String name, StructType columns, List<Integer> keys) {
    int[] numbers = keys.stream().mapToInt(Integer::intValue).toArray();
    int[] types = new int[numbers.length];
    boolean[] areUuids = new boolean[numbers.length];
    LookupTable table = new LookupTable(options, name, columns, numbers, types, areUuids);
    try (Connection connection = table.connect()) {
      try (PreparedStatement nothing = table.prepared(connection, table.select() + " WHERE 1 = 0");
          ResultSet rows = nothing.executeQuery()) {
        ResultSetMetaData found = rows.getMetaData();
        for (int index = 0; index < numbers.length; index++) {
          types[index] = found.getColumnType(numbers[index] + 1);
          areUuids[index] = "uuid".equalsIgnoreCase(found.getColumnTypeName(numbers[index] + 1));
        }
      }
      try (PreparedStatement unknown = table.prepared(connection, table.select() + table.where(1))) {
        for (int index = 0; index < numbers.length; index++) {
          unknown.setNull(index + 1, table.parameterType(index));
        }
        unknown.executeQuery().close();
      }
    } catch (SQLException failed) {
      throw table.error(failed);
    }
    return table;
  }

  /** How many columns its rows have. */
  int width() {
    return columns.length();
  }

  /** How many values a key has. */
  int keyWidth() {
    return keys.length;
  }

  /** Whether both are the same columns of the same table, read by the same user in the same way. */
  boolean isSame(LookupTable other) {
    return name.equals(other.name)
        && columns.equals(other.columns)
        && java.util.Arrays.equals(keys, other.keys)
        && options.parameters().equals(other.options.parameters());
  }

  Connection connect() {
    try {
      JdbcDialect dialect = JdbcDialects.get(options.url());
      Connection connection = dialect.createConnectionFactory(options).apply(-1);
      if (options.sessionInitStatement().isDefined()) {
        try (PreparedStatement first = connection.prepareStatement(options.sessionInitStatement().get())) {
          first.execute();
        }
      }
      return connection;
    } catch (Exception failed) { // Scala's: also SQLException
      throw error(failed);
    }
  }

  /** The rows of the table with these keys, by key; none that is not found. */
  Map<List<Object>, List<Row>> read(Connection connection, Collection<List<Object>> wanted) {
    List<List<Object>> possible = wanted.stream().filter(this::canBe).collect(Collectors.toList());
    Map<List<Object>, List<Row>> found = new HashMap<>();
    int most = MAX_PARAMETERS / keys.length;
    for (int from = 0; from < possible.size(); from += most) {
      read(connection, possible.subList(from, Math.min(possible.size(), from + most)), found);
    }
    return found;
  }

  private void read(Connection connection, List<List<Object>> wanted, Map<List<Object>, List<Row>> found) {
    try (PreparedStatement statement = prepared(connection, select() + where(wanted.size()))) {
      int parameter = 0;
      for (List<Object> key : wanted) {
        for (int index = 0; index < keys.length; index++) {
          statement.setObject(++parameter, key.get(index), parameterType(index));
        }
      }
      try (ResultSet rows = statement.executeQuery()) {
        Iterator<Row> each = JdbcUtils.resultSetToRows(rows, columns, JdbcDialects.get(options.url()));
        while (each.hasNext()) {
          Row row = each.next();
          found.computeIfAbsent(keyOf(row, keys), unused -> new ArrayList<>(1)).add(row);
        }
      }
    } catch (SQLException failed) {
      throw error(failed);
    }
  }

  /** Values of a row as a key, null if one of them is. */
  static List<Object> keyOf(Row row, int[] places) {
    List<Object> key = new ArrayList<>(places.length);
    for (int place : places) {
      if (row.isNullAt(place)) {
        return null;
      }
      key.add(keyValue(row.get(place)));
    }
    return key;
  }

  /** A value such that it equals what is the same in another type, or at another scale. */
  private static Object keyValue(Object value) {
    if (value instanceof Byte || value instanceof Short || value instanceof Integer) {
      return ((Number) value).longValue();
    }
    if (value instanceof BigDecimal number) {
      return number.stripTrailingZeros();
    }
    if (value instanceof Instant instant) {
      return Timestamp.from(instant);
    }
    return value instanceof LocalDate date ? Date.valueOf(date) : value;
  }

  /** Whether a row may have this key: a database refuses a whole statement for one value that its type cannot have. */
  private boolean canBe(List<Object> key) {
    for (int index = 0; index < keys.length; index++) {
      if (key.get(index) instanceof String text && (text.indexOf('\0') >= 0 || areUuids[index] && !isUuid(text))) {
        return false;
      }
    }
    return true;
  }

  private static boolean isUuid(String text) {
    try {
      return UUID.fromString(text).toString().equals(text);
    } catch (IllegalArgumentException other) {
      return false;
    }
  }

  /** The type that a value is given as: a whole number may be too large for the column's, and is then in no row. */
  private int parameterType(int index) {
    return switch (keyTypes[index]) {
      case Types.TINYINT, Types.SMALLINT, Types.INTEGER -> Types.BIGINT;
      default -> keyTypes[index];
    };
  }

  private PreparedStatement prepared(Connection connection, String sql) throws SQLException {
    PreparedStatement statement = connection.prepareStatement(sql);
    statement.setQueryTimeout(options.queryTimeout());
    return statement;
  }

  private String select() {
    return IntStream.range(0, columns.length()).mapToObj(this::quoted).collect(Collectors.joining(", ", "SELECT ", " FROM "))
        + options.tableOrQuery();
  }

  private String where(int count) {
    if (keys.length == 1) {
      return " WHERE " + quoted(keys[0]) + " IN (" + String.join(", ", Collections.nCopies(count, "?")) + ")";
    }
    String one = IntStream.of(keys).mapToObj(key -> quoted(key) + " = ?").collect(Collectors.joining(" AND ", "(", ")"));
    return " WHERE " + String.join(" OR ", Collections.nCopies(count, one));
  }

  private String quoted(int column) {
    return JdbcDialects.get(options.url()).quoteIdentifier(columns.apply(column).name());
  }

  private LookupException error(Exception failed) {
    String state = failed instanceof SQLException sql && sql.getSQLState() != null ? sql.getSQLState() : "";
    String said = String.valueOf(failed.getMessage()).replace(options.url(), "***");
    Iterator<scala.Tuple2<String, String>> given = options.parameters().iterator();
    while (given.hasNext()) {
      scala.Tuple2<String, String> option = given.next();
      if (!SHOWN.contains(option._1().toLowerCase(java.util.Locale.ROOT)) && !option._2().isEmpty()) {
        said = said.replace(option._2(), "***");
      }
    }
    return new LookupException(name, said, state);
  }

  @Override
  public String toString() {
    return "lookup in " + name;
  }
}
