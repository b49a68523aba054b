package dev.sparksql.results;

import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.types.DataTypeUtils$;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.QueryExecution$;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.Seq;

/**
 * Rows as Spark computes them. Dataset.collect makes Row objects of them, and gives 0 for a NULL in a column that Spark declares as never
 * NULL, as it does for some functions that can return NULL.
 */
public final class InternalRows {
    private static final String ACTION = "collect";

    private InternalRows() {}

    /** Returns the rows of a Dataset, computed by one execution that listeners and the web UI see, as for Dataset.collect. */
    public static Seq<InternalRow> collect(Dataset<?> frame) {
        QueryExecution execution = frame.queryExecution();
        InternalRow[] rows = SQLExecution.withNewExecutionId(execution, Option.apply(ACTION), () ->
                QueryExecution$.MODULE$.withInternalError("The \"" + ACTION + "\" action failed.", () -> {
                    SparkPlan plan = execution.executedPlan();
                    plan.resetMetrics();
                    return plan.executeCollect();
                }));
        return ArraySeq.unsafeWrapArray(rows);
    }

    /** Returns a Dataset over rows. Each column and element of it may be NULL, so that code that Spark generates looks for NULL. */
    public static Dataset<Row> frame(SparkSession session, StructType schema, Seq<InternalRow> rows) {
        @SuppressWarnings("unchecked") // a Scala sequence is one of its elements' supertype too
        Seq<Attribute> columns = (Seq<Attribute>) (Seq<?>) DataTypeUtils$.MODULE$.toAttributes(schema.asNullable());
        return Dataset.ofRows(session, new LocalRelation(columns, rows, false, Option.empty()));
    }
}
