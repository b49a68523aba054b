package dev.sparksql.plans;

import java.io.Serializable;
import org.apache.spark.sql.catalyst.expressions.CurrentBatchTimestamp;
import org.apache.spark.sql.catalyst.expressions.CurrentDate;
import org.apache.spark.sql.catalyst.expressions.CurrentTimestampLike;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.LocalTimestamp;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.Function1;
import scala.Option;
import scala.runtime.AbstractPartialFunction;

/** Puts the time of a batch in place of the current time, as Spark does before it optimises a streaming query. */
public final class CurrentTime extends AbstractPartialFunction<Expression, Expression> implements Serializable {
  private static final long serialVersionUID = 1;

  private CurrentTime() {}

  public static LogicalPlan ofBatch(LogicalPlan analysed) {
    return analysed.transformAllExpressionsWithSubqueries(new CurrentTime());
  }

  @Override
  public boolean isDefinedAt(Expression each) {
    return each instanceof CurrentTimestampLike
        || each instanceof LocalTimestamp
        || each instanceof CurrentDate
        || each.getClass().getSimpleName().equals("CurrentTime"); // of Spark 4.1 on
  }

  @Override
  public <A extends Expression, B> B applyOrElse(A each, Function1<A, B> other) {
    Option<String> zone = Option.apply("none"); // without one it counts as unresolved
    if (each instanceof LocalTimestamp local) {
      zone = local.timeZoneId();
    } else if (each instanceof CurrentDate date) {
      zone = date.timeZoneId();
    } else if (!isDefinedAt(each)) {
      return other.apply(each);
    }
    @SuppressWarnings("unchecked")
    B batch = (B) new CurrentBatchTimestamp(0, each.dataType(), zone);
    return batch;
  }
}
