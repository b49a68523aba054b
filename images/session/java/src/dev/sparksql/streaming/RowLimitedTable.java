package dev.sparksql.streaming;

import java.util.List;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.streaming.Offset;
import org.apache.spark.sql.execution.streaming.Source;

/**
 * Of a table whose source says, from any place and as often as one likes, what is so many files behind it, as Delta's does: what fits
 * is sought by halves, beginning with as many files as the last batch had.
 */
final class RowLimitedTable extends RowLimitedSource {
    private int expected = 1;

    RowLimitedTable(Source source, SupportsTriggerAvailableNow asked, long rows, int files) {
        super(source, asked, rows, files);
    }

    @Override
    Offset end(Offset start) {
        Offset reached = start;
        int fitting = 0;
        int tooMany = 0; // 0 while it is not known
        int number = Math.min(expected, files);
        while (number > fitting) {
            Offset end = asked(start, number);
            if (end == null || end.equals(start)) {
                return start;
            }
            List<HadoopFsRelation> read = read(start, end);
            int there = read.stream().mapToInt(each -> each.location().inputFiles().length).sum();
            if (there > 1 && rows(read) > rows) {
                tooMany = Math.min(number, there);
            } else {
                reached = end;
                fitting = number;
                if (there < number) {
                    break; // there are no more
                }
            }
            number = tooMany == 0 ? (int) Math.min(2L * fitting, files) : (fitting + tooMany) / 2;
        }
        expected = Math.max(fitting, 1);
        return reached;
    }
}
