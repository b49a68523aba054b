package dev.sparksql.lookups;

import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Row;

/** Reads the rows of a table that the rows of a stream's partition are joined with. */
interface Reads {
  /** The key that a row of the stream has, null for none: then no row of the table is its. */
  List<Object> keyOf(Row row);

  /** The rows of the table with these keys, by key; none for a key that is not found. */
  Map<List<Object>, List<Row>> read(List<List<Object>> keys);
}
