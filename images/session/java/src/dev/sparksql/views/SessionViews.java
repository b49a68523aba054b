package dev.sparksql.views;

import dev.sparksql.parsing.DeclaredFailure;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.analysis.ResolveCatalogs;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.ResolvedNamespace;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.CreateView;
import org.apache.spark.sql.catalyst.plans.logical.DropView;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ShowViews;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.ViewCatalog;
import scala.Function1;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/**
 * Leaves the views of Spark's own catalog to Spark where Iceberg's SparkSessionCatalog stands before it.
 *
 * <p>Iceberg's parser (1.12) takes CREATE VIEW, DROP VIEW and SHOW VIEWS for its own in each catalog that can have Iceberg's views. In a
 * Hive metastore Spark reads what has been made so as a view of its own, without the names of the query's columns and the schema in which
 * its tables are. This extension comes before Iceberg's: its parser stands below that one, and gives it these statements with names that
 * are resolved, which Iceberg hands on to Spark. A view that has been made as Iceberg's is dropped as Iceberg's.
 */
public final class SessionViews implements Function1<SparkSessionExtensions, BoxedUnit> {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectParser(SessionViews::above);
    return BoxedUnit.UNIT;
  }

  private static ParserInterface above(SparkSession session, ParserInterface parser) {
    ClassLoader loader = parser.getClass().getClassLoader();
    Class<?>[] interfaces = {ParserInterface.class};
    return (ParserInterface) Proxy.newProxyInstance(loader, interfaces, (proxy, method, arguments) -> {
      try {
        Object parsed = method.invoke(parser, arguments);
        return parsed instanceof LogicalPlan plan ? withSessionsView(session, plan) : parsed;
      } catch (InvocationTargetException thrown) {
        throw DeclaredFailure.of(thrown.getCause());
      }
    });
  }

  private static LogicalPlan withSessionsView(SparkSession session, LogicalPlan plan) {
    if (!(plan instanceof CreateView || plan instanceof DropView || plan instanceof ShowViews)) {
      return plan;
    }
    var catalogs = ((org.apache.spark.sql.classic.SparkSession) session).sessionState().catalogManager();
    LogicalPlan named = new ResolveCatalogs(catalogs).apply(plan.children().head());
    if (!isSparks(named, plan)) {
      return plan;
    }
    List<LogicalPlan> children = new ArrayList<>(CollectionConverters.asJava(plan.children()));
    children.set(0, named);
    return plan.withNewChildren(CollectionConverters.asScala(children).toSeq());
  }

  private static boolean isSparks(LogicalPlan named, LogicalPlan plan) {
    if (named instanceof ResolvedNamespace namespace) {
      return CatalogV2Util.isSessionCatalog(namespace.catalog());
    }
    return named instanceof ResolvedIdentifier view
        && CatalogV2Util.isSessionCatalog(view.catalog())
        && !(plan instanceof DropView && isIcebergs(view.catalog(), view));
  }

  private static boolean isIcebergs(CatalogPlugin catalog, ResolvedIdentifier view) {
    return catalog instanceof ViewCatalog views && views.viewExists(view.identifier());
  }
}
