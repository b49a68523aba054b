package dev.sparksql.lookups;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.util.TaskCompletionListener;

/**
 * The rows of a stream, each with the rows of a table that have its key: one read for each `chunk` rows of a partition.
 *
 * <p>A row has the columns of the stream, then the values of its key. What comes out has those columns, then the table's; with `outer`
 * also a row whose key is NULL or not in the table, with NULL for each of the table's columns.
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
    return new Joined(rows);
  }

  private final class Joined implements Iterator<Row> {
    private final int[] keyPlaces = IntStream.range(width, width + table.keyWidth()).toArray();
    private final Iterator<Row> input;
    private Iterator<Row> ready = List.<Row>of().iterator();
    private Connection connection;

    private Joined(Iterator<Row> input) {
      this.input = input;
    }

    @Override
    public boolean hasNext() {
      while (!ready.hasNext() && input.hasNext()) {
        ready = next(input);
      }
      return ready.hasNext();
    }

    @Override
    public Row next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      return ready.next();
    }

    private Iterator<Row> next(Iterator<Row> input) {
      List<Row> rows = new ArrayList<>();
      Map<List<Object>, List<Row>> found = new HashMap<>();
      List<List<Object>> missing = new ArrayList<>();
      while (input.hasNext() && rows.size() < chunk) {
        Row row = input.next();
        rows.add(row);
        List<Object> key = LookupTable.keyOf(row, keyPlaces);
        if (key == null || found.containsKey(key)) {
          continue;
        }
        List<Row> known = keepNanos == 0 ? null : LookupCache.SHARED.get(table, key, keepNanos);
        found.put(key, known == null ? List.of() : known);
        if (known == null) {
          missing.add(key);
        }
      }
      if (!missing.isEmpty()) {
        read(missing, found);
      }
      List<Row> joined = new ArrayList<>(rows.size());
      for (Row row : rows) {
        List<Object> key = LookupTable.keyOf(row, keyPlaces);
        List<Row> matches = key == null ? List.of() : found.get(key);
        for (Row match : matches) {
          joined.add(joined(row, match));
        }
        if (outer && matches.isEmpty()) {
          joined.add(joined(row, null));
        }
      }
      return joined.iterator();
    }

    private void read(List<List<Object>> missing, Map<List<Object>, List<Row>> found) {
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

    private Row joined(Row row, Row match) {
      Object[] values = new Object[width + table.width()];
      for (int index = 0; index < width; index++) {
        values[index] = row.get(index);
      }
      for (int index = 0; match != null && index < table.width(); index++) {
        values[width + index] = match.get(index);
      }
      return RowFactory.create(values);
    }
  }
}
