package dev.sparksql.lookups;

import java.sql.Timestamp;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Row;

/**
 * The rows of a stream with those of an Iceberg table as it was at the time of each row, see JoinedRows. A row has the columns of the
 * stream, then the values of its key, then its time.
 */
public final class AsOfLookup implements MapPartitionsFunction<Row, Row> {
  private static final long serialVersionUID = 1L;

  private final AsOfTable table;
  private final int width;
  private final int chunk;
  private final boolean outer;

  /** `width` is how many columns the stream has. */
  public AsOfLookup(AsOfTable table, int width, int chunk, boolean outer) {
    this.table = table;
    this.width = width;
    this.chunk = chunk;
    this.outer = outer;
  }

  @Override
  public Iterator<Row> call(Iterator<Row> rows) {
    return new JoinedRows(rows, new Versions(), width, table.width(), chunk, outer);
  }

  /** Keys begin with the number of a snapshot. */
  private final class Versions implements Reads {
    private final int timePlace = width + table.keyWidth();
    private final int[] keyPlaces = IntStream.range(width, timePlace).toArray();

    @Override
    public List<Object> keyOf(Row row) {
      List<Object> values = row.isNullAt(timePlace) ? null : LookupTable.keyOf(row, keyPlaces);
      Long snapshot = values == null ? null : table.snapshotAt(millis(row.get(timePlace)));
      if (snapshot == null) {
        return null;
      }
      List<Object> key = new ArrayList<>(values.size() + 1);
      key.add(snapshot);
      key.addAll(values);
      return key;
    }

    @Override
    public Map<List<Object>, List<Row>> read(List<List<Object>> keys) {
      Map<Long, List<List<Object>>> bySnapshot = new TreeMap<>();
      for (List<Object> key : keys) {
        bySnapshot.computeIfAbsent((Long) key.get(0), unused -> new ArrayList<>()).add(key);
      }
      Map<List<Object>, List<Row>> found = new HashMap<>();
      bySnapshot.forEach((snapshot, wanted) -> table.read(snapshot, wanted, found));
      return found;
    }

    private static long millis(Object time) {
      return (time instanceof Timestamp stamp ? stamp.toInstant() : (Instant) time).toEpochMilli();
    }
  }
}
