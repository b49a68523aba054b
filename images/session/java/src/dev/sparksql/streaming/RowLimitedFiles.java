package dev.sparksql.streaming;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.streaming.Offset;
import org.apache.spark.sql.execution.streaming.runtime.FileStreamSource;
import org.apache.spark.sql.execution.streaming.runtime.FileStreamSourceOffset;
import scala.Product;
import scala.collection.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Of a table of files. Its source notes what it has shown in a log of the checkpoint and goes on from there, wherever one asks from; a
 * place is the number of an entry. So it is asked for one file after the other, and what was shown and does not fit is in the log and
 * no batch's yet. Of Parquet, whose files are quick to count, the source is looked at for what comes next, and then asked for what fits.
 */
final class RowLimitedFiles extends RowLimitedSource {
    // Places in an entry of a list.
    private static final int PATH = 0;
    private static final int TIMESTAMP = 2;

    private final FileStreamSource source;
    private final Configuration configuration;
    private final List<Field> lists; // none if it is not known what comes next
    private long noted = -1;
    private long committed = -1;

    RowLimitedFiles(FileStreamSource source, DataSource table, long rows, int files) {
        super(source, source, rows, files);
        this.source = source;
        configuration = configuration(table.sparkSession(), table.options());
        lists = ParquetFileFormat.class.isAssignableFrom(table.providingClass()) ? lists() : List.of();
    }

    @Override
    Offset end(Offset start) {
        long begin = start == null ? -1 : FileStreamSourceOffset.apply(start).logOffset();
        long place = begin;
        long taken = 0;
        for (int number = 0; number < files; place++) {
            int showing = 1;
            if (place >= noted) {
                showing = number == 0 ? 1 : fitting(rows - taken, files - number);
                if (showing == 0 && taken > 0) {
                    break;
                }
                var shown = (FileStreamSourceOffset) asked(start, Math.max(showing, 1)); // they are one entry
                noted = shown == null ? -1 : shown.logOffset();
                if (noted <= place) {
                    break; // there are no more
                }
            }
            long more = rowsOf(place + 1);
            if (taken > 0 && taken + more > rows) {
                break;
            }
            taken += more;
            number += Math.max(showing, 1);
        }
        return place == begin ? start : new FileStreamSourceOffset(place);
    }

    private long rowsOf(long entry) {
        FileStreamSourceOffset from = entry == 0 ? null : new FileStreamSourceOffset(entry - 1);
        return rows(read(from, new FileStreamSourceOffset(entry)));
    }

    /** Returns how many of the files that come next have so many rows at most together; 1 where it is not known. */
    private int fitting(long left, int most) {
        List<Path> next = next();
        if (next.isEmpty()) {
            return 1;
        }
        int number = 0;
        for (Path file : next.subList(0, Math.min(most, next.size()))) {
            left -= rowsOfParquet(file, configuration);
            if (left < 0) {
                break;
            }
            number++;
        }
        return number;
    }

    /** The source cleans up the files of one entry at a time. */
    @Override
    public void commit(Offset end) {
        long place = FileStreamSourceOffset.apply(end).logOffset();
        for (long each = committed < 0 ? place : committed + 1; each <= place; each++) {
            source.commit(new FileStreamSourceOffset(each));
        }
        committed = place;
    }

    /** Returns the files that the source has listed and will show next; none if it lists anew. */
    private List<Path> next() {
        List<Path> found = new ArrayList<>();
        for (Product file : listed()) {
            SparkPath path = (SparkPath) file.productElement(PATH);
            if (source.seenFiles().isNewFile(path, (long) file.productElement(TIMESTAMP))) {
                found.add(path.toPath());
            }
        }
        return found;
    }

    @SuppressWarnings("unchecked")
    private List<Product> listed() {
        try {
            for (Field list : lists) {
                if (list.get(source) != null) {
                    return CollectionConverters.asJava((Seq<Product>) list.get(source));
                }
            }
            return List.of();
        } catch (IllegalAccessException impossible) {
            throw new AssertionError(impossible);
        }
    }

    /** Returns what a source has of lists: what is left of the last one, and all that a query reads which ends with what is there. */
    private static List<Field> lists() {
        try {
            Field left = FileStreamSource.class.getDeclaredField("unreadFiles");
            Field all = FileStreamSource.class.getDeclaredField("allFilesForTriggerAvailableNow");
            left.setAccessible(true);
            all.setAccessible(true);
            return List.of(left, all);
        } catch (NoSuchFieldException otherSpark) {
            return List.of();
        }
    }
}
