package dev.sparksql.plans;

import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.catalyst.catalog.HiveTableRelation;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractPartialFunction;

/**
 * A table that is no stream, kept away from the optimiser: that moves conditions into a table's scan, where nothing tells them,
 * and takes from the table what it holds just now, as its size, its partitions, or the greatest of a column.
 */
public final class HeldTable extends BaseRelation {
  private final LogicalPlan table;

  private HeldTable(LogicalPlan table) {
    this.table = table;
  }

  /** A plan with each of its tables held. */
  public static LogicalPlan of(LogicalPlan plan) {
    return plan.transformUpWithSubqueries(new Holding());
  }

  /** The table that a node stands for, or else the node. */
  public static LogicalPlan behind(LogicalPlan node) {
    return node instanceof LogicalRelation relation && relation.relation() instanceof HeldTable held ? held.table : node;
  }

  @Override
  public SQLContext sqlContext() {
    throw new UnsupportedOperationException("it is never read");
  }

  @Override
  public StructType schema() {
    return table.schema();
  }

  @Override
  public long sizeInBytes() {
    return Long.MAX_VALUE;
  }

  private static final class Holding extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    @Override
    public boolean isDefinedAt(LogicalPlan node) {
      return columns(node) != null;
    }

    @Override
    public <A extends LogicalPlan, B> B applyOrElse(A node, Function1<A, B> other) {
      Seq<AttributeReference> columns = columns(node);
      if (columns == null) {
        return other.apply(node);
      }
      @SuppressWarnings("unchecked")
      B held = (B) new LogicalRelation(new HeldTable(node), columns, Option.empty(), false, Option.empty());
      return held;
    }

    private static Seq<AttributeReference> columns(LogicalPlan node) {
      if (node.isStreaming()) {
        return null;
      }
      if (node instanceof LogicalRelation relation) {
        return relation.relation() instanceof HeldTable ? null : relation.output();
      }
      if (node instanceof DataSourceV2Relation relation) {
        return relation.output();
      }
      return node instanceof HiveTableRelation relation ? relation.output() : null;
    }
  }
}
