package dev.sparksql.streaming;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.UUID;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.sources.StreamSourceProvider;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Tuple2;

/**
 * Provides the source of a table of files or of Delta whose batches are bounded by rows. Spark itself bounds theirs by files or bytes.
 *
 * <p>A query's plan names this class in place of the table's format, and by an option what is held here: the table's own DataSource.
 */
public final class RowLimit implements StreamSourceProvider {
    /** The name of this class, where that of the table's format would be. */
    public static final String PROVIDER = RowLimit.class.getName();

    /** The option that says which source is meant. */
    public static final String OPTION = "dev.sparksql.source";

    /** How many plans may wait for their start; those that are looked at and never start go first. */
    private static final int MAX_HELD = 1_000;

    private static final Map<String, Limited> HELD =
            Collections.synchronizedMap(
                    new LinkedHashMap<>() {
                        @Override
                        protected boolean removeEldestEntry(Map.Entry<String, Limited> eldest) {
                            return size() > MAX_HELD;
                        }
                    });

    private record Limited(DataSource table, long rows, int files) {}

    /** Returns the option's value for a source whose batches have so many rows and files at most; it is held until a query asks. */
    public static String hold(DataSource table, long rows, int files) {
        String name = UUID.randomUUID().toString();
        HELD.put(name, new Limited(table, rows, files));
        return name;
    }

    @Override
    public Tuple2<String, StructType> sourceSchema(
            SQLContext context,
            Option<StructType> schema,
            String provider,
            scala.collection.immutable.Map<String, String> options) {
        throw new UnsupportedOperationException(provider + " is for a query's own plan");
    }

    @Override
    public Source createSource(
            SQLContext context,
            String checkpoint,
            Option<StructType> schema,
            String provider,
            scala.collection.immutable.Map<String, String> options) {
        Option<String> name = options.get(OPTION);
        Limited limited = name.isEmpty() ? null : HELD.remove(name.get());
        if (limited == null) {
            throw new UnsupportedOperationException(provider + " is for a query's own plan");
        }
        return RowLimitedSource.of(limited.table, checkpoint, limited.rows, limited.files);
    }
}
