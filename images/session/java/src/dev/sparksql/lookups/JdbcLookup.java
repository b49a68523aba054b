package dev.sparksql.lookups;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Row;
import org.apache.spark.util.TaskCompletionListener;

/**
 * The rows of a stream with those of a table in a database, see JoinedRows. A row has the columns of the stream, then the values of its
 * key.
 */
public final class JdbcLookup implements MapPartitionsFunction<Row, Row> {
  private static final long serialVersionUID = 1L;

  private final LookupTable table;
  private final int width;
  private final int chunk;
  private final long keepNanos;
  private final boolean outer;

  /** `width` is how many columns the stream has, `keepSeconds` how long what was read is good for. */
  public JdbcLookup(LookupTable table, int width, int chunk, long keepSeconds, boolean outer) {
    this.table = table;
    this.width = width;
    this.chunk = chunk;
    this.keepNanos = TimeUnit.SECONDS.toNanos(keepSeconds);
    this.outer = outer;
  }

  @Override
  public Iterator<Row> call(Iterator<Row> rows) {
    return new JoinedRows(rows, new Cached(), width, table.width(), chunk, outer);
  }

  private final class Cached implements Reads {
    private final int[] keyPlaces = IntStream.range(width, width + table.keyWidth()).toArray();
    private Connection connection;

    @Override
    public List<Object> keyOf(Row row) {
      return LookupTable.keyOf(row, keyPlaces);
    }

    @Override
    public Map<List<Object>, List<Row>> read(List<List<Object>> keys) {
      Map<List<Object>, List<Row>> found = new HashMap<>();
      List<List<Object>> missing = new ArrayList<>();
      for (List<Object> key : keys) {
        List<Row> known = keepNanos == 0 ? null : LookupCache.SHARED.get(table, key, keepNanos);
        if (known == null) {
          missing.add(key);
        } else {
          found.put(key, known);
        }
      }
      if (!missing.isEmpty()) {
        readMissing(missing, found);
      }
      return found;
    }

    private void readMissing(List<List<Object>> missing, Map<List<Object>, List<Row>> found) {
      long now = System.nanoTime(); // before the read: rows are at least as new
      Map<List<Object>, List<Row>> read = table.read(connected(), missing);
      for (List<Object> key : missing) {
        List<Row> rows = read.getOrDefault(key, List.of());
        found.put(key, rows);
        if (keepNanos > 0) {
          LookupCache.SHARED.put(table, key, rows, now);
        }
      }
    }

    private Connection connected() {
      if (connection == null) {
        connection = table.connect();
        TaskContext.get().addTaskCompletionListener((TaskCompletionListener) context -> close());
      }
      return connection;
    }

    private void close() {
      try {
        connection.close();
      } catch (SQLException ended) {
        // The task has what it wanted, or fails for another reason.
      }
    }
  }
}
