package dev.sparksql.lookups;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Set;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;

/**
 * The rows of a stream, each with the rows of a table that have its key: one read for each `chunk` rows of a partition.
 *
 * <p>What comes out has the first `width` columns of a row, then the table's; with `outer` also a row whose key is NULL or not in the
 * table, with NULL for each of the table's columns.
 */
final class JoinedRows implements Iterator<Row> {
  private final Iterator<Row> input;
  private final Reads reads;
  private final int width;
  private final int tableWidth;
  private final int chunk;
  private final boolean outer;
  private Iterator<Row> ready = List.<Row>of().iterator();

  JoinedRows(Iterator<Row> input, Reads reads, int width, int tableWidth, int chunk, boolean outer) {
    this.input = input;
    this.reads = reads;
    this.width = width;
    this.tableWidth = tableWidth;
    this.chunk = chunk;
    this.outer = outer;
  }

  @Override
  public boolean hasNext() {
    while (!ready.hasNext() && input.hasNext()) {
      ready = nextChunk();
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

  private Iterator<Row> nextChunk() {
    List<Row> rows = new ArrayList<>();
    List<List<Object>> keys = new ArrayList<>();
    Set<List<Object>> wanted = new LinkedHashSet<>();
    while (input.hasNext() && rows.size() < chunk) {
      Row row = input.next();
      List<Object> key = reads.keyOf(row);
      rows.add(row);
      keys.add(key);
      if (key != null) {
        wanted.add(key);
      }
    }
    Map<List<Object>, List<Row>> found = wanted.isEmpty() ? Map.of() : reads.read(List.copyOf(wanted));
    List<Row> joined = new ArrayList<>(rows.size());
    for (int index = 0; index < rows.size(); index++) {
      List<Object> key = keys.get(index);
      List<Row> matches = key == null ? List.of() : found.getOrDefault(key, List.of());
      for (Row match : matches) {
        joined.add(joined(rows.get(index), match));
      }
      if (outer && matches.isEmpty()) {
        joined.add(joined(rows.get(index), null));
      }
    }
    return joined.iterator();
  }

  private Row joined(Row row, Row match) {
    Object[] values = new Object[width + tableWidth];
    for (int index = 0; index < width; index++) {
      values[index] = row.get(index);
    }
    for (int index = 0; match != null && index < tableWidth; index++) {
      values[width + index] = match.get(index);
    }
    return RowFactory.create(values);
  }
}
