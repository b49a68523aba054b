package dev.sparksql.lookups;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Row;

/**
 * What lookups have found in the last while, in this JVM; also that a key has no rows. Those that were not asked for the longest
 * go first when there are too many.
 */
final class LookupCache {
  /** Rows and keys without rows of all tables together: some 50 MiB of rows with ten columns. */
  private static final int MAX_ROWS = 100_000;

  static final LookupCache SHARED = new LookupCache();

  private record Place(LookupTable table, List<Object> key) {
    @Override
    public boolean equals(Object other) {
      return other instanceof Place place && key.equals(place.key) && table.isSame(place.table);
    }

    @Override
    public int hashCode() {
      return key.hashCode();
    }
  }

  private record Entry(List<Row> rows, long readAt) {
    int size() {
      return Math.max(1, rows.size());
    }
  }

  private final Map<Place, Entry> entries = new LinkedHashMap<>(16, 0.75f, true);
  private int size;

  private LookupCache() {}

  /** The rows that were read less than `nanos` ago, null if they were not. */
  synchronized List<Row> get(LookupTable table, List<Object> key, long nanos) {
    Entry entry = entries.get(new Place(table, key));
    return entry == null || System.nanoTime() - entry.readAt >= nanos ? null : entry.rows;
  }

  /** Keeps rows that were read at `readAt`, by System.nanoTime. */
  synchronized void put(LookupTable table, List<Object> key, List<Row> rows, long readAt) {
    Entry added = new Entry(rows, readAt);
    if (added.size() > MAX_ROWS) {
      return;
    }
    Entry before = entries.put(new Place(table, key), added);
    size += added.size() - (before == null ? 0 : before.size());
    var oldest = entries.values().iterator();
    while (size > MAX_ROWS) {
      size -= oldest.next().size();
      oldest.remove();
    }
  }
}
