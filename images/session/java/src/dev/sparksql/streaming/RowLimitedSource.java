package dev.sparksql.streaming;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.streaming.Offset;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.execution.streaming.runtime.FileStreamSource;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A source of files whose batches end before the file with which they would have more rows than a limit. A batch has one file with
 * rows at least.
 *
 * <p>Offsets are the source's own: a query may go on from them without a limit, and with one from any.
 */
abstract class RowLimitedSource implements Source, SupportsTriggerAvailableNow, ReportsSourceMetrics {
    final long rows;
    final int files;
    private final Source source;
    private final SupportsTriggerAvailableNow asked;
    private final Map<Path, Long> counted = new HashMap<>(); // while the end of a batch is sought

    RowLimitedSource(Source source, SupportsTriggerAvailableNow asked, long rows, int files) {
        this.source = source;
        this.asked = asked;
        this.rows = rows;
        this.files = files;
    }

    /** Returns the source that a table has in a checkpoint, with batches of so many rows and files at most. */
    static Source of(DataSource table, String checkpoint, long rows, int files) {
        Source source = table.createSource(checkpoint);
        if (source instanceof FileStreamSource of) {
            return new RowLimitedFiles(of, table, rows, files);
        }
        if (source instanceof SupportsTriggerAvailableNow of) {
            return new RowLimitedTable(source, of, rows, files);
        }
        throw new UnsupportedOperationException("no limit of rows for " + source);
    }

    /** Returns the place behind the last file of a batch that begins at another place, null at the first; the same if there is none. */
    abstract Offset end(Offset start);

    /** Returns at most so many files behind a place. */
    final Offset asked(Offset start, int number) {
        return (Offset) asked.latestOffset(start, ReadLimit.maxFiles(number));
    }

    @Override
    public org.apache.spark.sql.connector.read.streaming.Offset latestOffset(
            org.apache.spark.sql.connector.read.streaming.Offset start, ReadLimit limit) {
        if (limit instanceof ReadAllAvailable) {
            return asked.latestOffset(start, limit);
        }
        counted.clear();
        return end((Offset) start);
    }

    /** Returns what a batch between two places reads. */
    final List<HadoopFsRelation> read(Offset from, Offset to) {
        LogicalPlan plan = source.getBatch(Option.apply(from), to).queryExecution().logical();
        List<HadoopFsRelation> found = new ArrayList<>();
        for (LogicalPlan leaf : CollectionConverters.asJava(plan.collectLeaves())) {
            if (leaf instanceof LogicalRelation relation && relation.relation() instanceof HadoopFsRelation read) {
                found.add(read);
            }
        }
        return found;
    }

    /** Returns the number of rows of what is read; runs jobs if the format does not have it in its files. */
    final long rows(List<HadoopFsRelation> read) {
        return read.stream().mapToLong(this::rows).sum();
    }

    private long rows(HadoopFsRelation read) {
        if (!(read.fileFormat() instanceof ParquetFileFormat)) {
            return session(read.sparkSession()).baseRelationToDataFrame(read).count();
        }
        Configuration configuration = configuration(read.sparkSession(), read.options());
        long found = 0;
        for (String file : read.location().inputFiles()) {
            found += rowsOfParquet(new Path(URI.create(file)), configuration);
        }
        return found;
    }

    /** Returns the number of rows that is at the end of a file. */
    final long rowsOfParquet(Path file, Configuration configuration) {
        return counted.computeIfAbsent(file, each -> written(each, configuration));
    }

    private static long written(Path file, Configuration configuration) {
        try (ParquetFileReader reader = ParquetFileReader.open(HadoopInputFile.fromPath(file, configuration))) {
            return reader.getRecordCount();
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        }
    }

    static Configuration configuration(SparkSession session, scala.collection.immutable.Map<String, String> options) {
        return session(session).sessionState().newHadoopConfWithOptions(options);
    }

    private static org.apache.spark.sql.classic.SparkSession session(SparkSession session) {
        return (org.apache.spark.sql.classic.SparkSession) session;
    }

    @Override
    public ReadLimit getDefaultReadLimit() {
        return ReadLimit.maxRows(rows);
    }

    @Override
    public void prepareForTriggerAvailableNow() {
        asked.prepareForTriggerAvailableNow();
    }

    @Override
    public org.apache.spark.sql.connector.read.streaming.Offset reportLatestOffset() {
        return asked.reportLatestOffset();
    }

    @Override
    public Map<String, String> metrics(Optional<org.apache.spark.sql.connector.read.streaming.Offset> consumed) {
        return source instanceof ReportsSourceMetrics reporting ? reporting.metrics(consumed) : Map.of();
    }

    @Override
    public StructType schema() {
        return source.schema();
    }

    @Override
    public Option<Offset> getOffset() {
        return source.getOffset();
    }

    @Override
    public Dataset<Row> getBatch(Option<Offset> start, Offset end) {
        return source.getBatch(start, end);
    }

    @Override
    public org.apache.spark.sql.connector.read.streaming.Offset initialOffset() {
        return source.initialOffset();
    }

    @Override
    public org.apache.spark.sql.connector.read.streaming.Offset deserializeOffset(String json) {
        return source.deserializeOffset(json);
    }

    @Override
    public void commit(Offset end) {
        source.commit(end);
    }

    @Override
    public void stop() {
        source.stop();
    }

    @Override
    public String toString() {
        return source.toString();
    }
}
