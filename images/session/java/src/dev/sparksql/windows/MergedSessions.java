package dev.sparksql.windows;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.QueryContext;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.CreateArray;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Inline;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SessionWindow;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.optimizer.CollapseProject;
import org.apache.spark.sql.catalyst.optimizer.RewriteDistinctAggregates;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;
import scala.Function1;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;
import scala.runtime.BoxedUnit;

/**
 * Keeps conditions on the bounds of a session above the aggregation that merges sessions.
 *
 * <p>To Spark's optimiser (4.1) a session is a key like any other. It moves filters, semi joins and limits on keys below the
 * aggregation, where a row has only the session that it would be alone: other rows are merged then. This extension gives what an
 * aggregation tells of its sessions through a generator of one row. The optimiser moves nothing below a generator that reads
 * its columns; conditions on other keys still pass, and they may. Rows, columns and the state of a stream are the same.
 *
 * <p>Several DISTINCT aggregates, or one with FILTER, Spark makes of two aggregations, the first of which has sessions of the rows
 * of each value. It is refused.
 *
 * <p>It changes plans between analysis and optimisation: those of batches, of each batch of a stream, and of Spark Connect.
 */
public final class MergedSessions implements Function1<SparkSessionExtensions, BoxedUnit> {
  private static final String DONE = "sparksql.mergedSession";
  private static final String REFUSED = "UNSUPPORTED_FEATURE"; // Spark's condition, whose SQLSTATE is 0A000
  private static final String DISTINCT =
      "several DISTINCT aggregates, or one with FILTER, in one aggregation by session_window: which session a row is in is not "
          + "known of the rows of one value alone. Write size(collect_set(x)) for count(DISTINCT x), or approx_count_distinct(x)";

  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectPlanNormalizationRule(session -> new Kept());
    return BoxedUnit.UNIT;
  }

  /** Returns an optimised plan without the generators that this extension has put into it: their columns are the sessions again. */
  public static LogicalPlan withoutGenerators(LogicalPlan optimised) {
    LogicalPlan plain = optimised.transformUpWithSubqueries(new Change() {
      @Override
      LogicalPlan changed(LogicalPlan node) {
        return node instanceof Generate generate && isOurs(generate) ? plain(generate) : null;
      }
    });
    return plain == optimised ? optimised : CollapseProject.apply(plain);
  }

  private static boolean isOurs(Generate generate) {
    return !fields(generate).isEmpty() && fields(generate).stream().allMatch(field -> field.metadata().contains(DONE));
  }

  private static List<Attribute> fields(Generate generate) {
    List<Attribute> fields = new ArrayList<>();
    for (Attribute read : CollectionConverters.asJava(((Expression) generate.generator()).references().toSeq())) {
      fields.add(read);
    }
    return fields;
  }

  private static LogicalPlan plain(Generate generate) {
    List<NamedExpression> columns = new ArrayList<>(CollectionConverters.asJava(generate.requiredChildOutput()));
    var rows = (CreateArray) ((Inline) generate.generator()).child();
    List<Expression> values = CollectionConverters.asJava(((CreateNamedStruct) rows.children().head()).valExprs());
    List<Attribute> names = CollectionConverters.asJava(generate.generatorOutput());
    for (int place = 0; place < names.size(); place++) {
      Attribute name = names.get(place);
      Option<Metadata> told = Option.apply(name.metadata());
      columns.add(new Alias(values.get(place), name.name(), name.exprId(), seq(List.of()), told, seq(List.of())));
    }
    return new Project(seq(columns), generate.child());
  }

  private abstract static class Change extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    /** Returns the node in place of another one, null for one that stays. */
    abstract LogicalPlan changed(LogicalPlan node);

    @Override
    public boolean isDefinedAt(LogicalPlan node) {
      return changed(node) != null;
    }

    @Override
    public <A extends LogicalPlan, B> B applyOrElse(A node, Function1<A, B> otherwise) {
      LogicalPlan changed = changed(node);
      @SuppressWarnings("unchecked")
      B other = changed == null ? otherwise.apply(node) : (B) changed;
      return other;
    }
  }

  private static final class Kept extends Rule<LogicalPlan> {
    @Override
    public LogicalPlan apply(LogicalPlan plan) {
      return plan.transformUpWithSubqueries(new Change() {
        @Override
        LogicalPlan changed(LogicalPlan node) {
          if (!(node instanceof Aggregate aggregate)) {
            return null;
          }
          checkDistinct(aggregate);
          return told(aggregate).isEmpty() ? null : kept(aggregate);
        }
      });
    }
  }

  /** Refuses sessions that Spark's own rule, which runs later, would make of those of each value. */
  private static void checkDistinct(Aggregate aggregate) {
    boolean isDistinct = CollectionConverters.asJava(aggregate.aggregateExpressions()).stream()
        .anyMatch(result -> hasDistinct((Expression) result));
    if (isDistinct && !sessions(aggregate).isEmpty() && RewriteDistinctAggregates.rewrite(aggregate) != aggregate) {
      throw MergedSessions.<RuntimeException>unchecked(refused());
    }
  }

  private static AnalysisException refused() {
    var nothing = scala.collection.immutable.Map$.MODULE$.<String, String>empty();
    return new AnalysisException(
        "[" + REFUSED + "] " + DISTINCT, Option.empty(), Option.empty(), Option.empty(), Option.apply(REFUSED), nothing,
        new QueryContext[0]);
  }

  /** Scala, which calls this, knows no checked exceptions. */
  @SuppressWarnings("unchecked")
  private static <E extends Exception> E unchecked(Exception failed) throws E {
    throw (E) failed;
  }

  private static boolean hasDistinct(Expression expression) {
    return expression instanceof AggregateExpression call && call.isDistinct()
        || CollectionConverters.asJava(expression.children()).stream().anyMatch(MergedSessions::hasDistinct);
  }

  private static List<NamedExpression> sessions(Aggregate aggregate) {
    List<NamedExpression> sessions = new ArrayList<>();
    for (Expression key : CollectionConverters.asJava(aggregate.groupingExpressions())) {
      if (key instanceof NamedExpression named && named.metadata().contains(SessionWindow.marker())) {
        sessions.add(named);
      }
    }
    return sessions;
  }

  /** The results that are made of sessions alone: those of aggregates are moved nowhere. */
  private static List<NamedExpression> told(Aggregate aggregate) {
    List<NamedExpression> sessions = sessions(aggregate);
    List<NamedExpression> told = new ArrayList<>();
    if (sessions.isEmpty()) {
      return told;
    }
    for (NamedExpression result : CollectionConverters.asJava(aggregate.aggregateExpressions())) {
      if (!result.metadata().contains(DONE) && readsOne((Expression) result, sessions) && !isAggregated((Expression) result)) {
        told.add(result);
      }
    }
    return told;
  }

  private static boolean readsOne(Expression result, List<NamedExpression> sessions) {
    AttributeSet read = result.references();
    return sessions.stream().anyMatch(session -> read.contains(session));
  }

  private static boolean isAggregated(Expression result) {
    return result instanceof AggregateExpression
        || CollectionConverters.asJava(result.children()).stream().anyMatch(MergedSessions::isAggregated);
  }

  private static LogicalPlan kept(Aggregate aggregate) {
    List<NamedExpression> told = told(aggregate);
    List<NamedExpression> results = new ArrayList<>();
    List<NamedExpression> output = new ArrayList<>();
    List<Expression> fields = new ArrayList<>();
    List<Attribute> generated = new ArrayList<>();
    for (NamedExpression result : CollectionConverters.asJava(aggregate.aggregateExpressions())) {
      if (!told.contains(result)) {
        results.add(result);
        output.add(result.toAttribute());
        continue;
      }
      Alias inner = alias(result);
      results.add(inner);
      fields.add(Literal.create(result.name(), DataTypes.StringType));
      fields.add((Expression) inner.toAttribute());
      Attribute attribute = attribute(result);
      generated.add(attribute);
      output.add(attribute);
    }
    LogicalPlan below = aggregate.copy(
        aggregate.groupingExpressions(), seq(results), aggregate.child(), aggregate.hint());
    Inline one = new Inline(new CreateArray(seq(List.of(new CreateNamedStruct(seq(fields))))));
    LogicalPlan above = new Generate(one, seq(List.of()), false, Option.empty(), seq(generated), below);
    return new Project(seq(output), above);
  }

  /** The result under another id, with a mark that it need not be changed again. */
  private static Alias alias(NamedExpression result) {
    Expression value = result instanceof Alias alias ? alias.child() : (Expression) result;
    Metadata marked = new MetadataBuilder().withMetadata(result.metadata()).putBoolean(DONE, true).build();
    return new Alias(value, result.name(), NamedExpression.newExprId(), seq(List.of()), Option.apply(marked), seq(List.of()));
  }

  /** What the nodes above know the result by. */
  private static Attribute attribute(NamedExpression result) {
    Expression value = (Expression) result;
    return new AttributeReference(
        result.name(), value.dataType(), value.nullable(), result.metadata(), result.exprId(), result.qualifier());
  }

  private static <T> scala.collection.immutable.Seq<T> seq(List<T> list) {
    return CollectionConverters.asScala(list).toSeq();
  }
}
