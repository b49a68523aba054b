package dev.sparksql.plans;

import java.math.BigDecimal;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.CommutativeExpression;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.SchemaUtils;
import org.apache.spark.unsafe.types.CalendarInterval;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.Product;
import scala.collection.Iterator;

/**
 * A logical plan as JSON: every node and expression, with its class and every constructor field. It knows no rules of what
 * means what. What it cannot tell apart from others is `{"opaque": class}`.
 *
 * <p>`leaves` are the plan's tables, whose place the reader tells by other means; they stand in the JSON by their number.
 */
public final class PlanText {
  private static final Set<String> TABLES =
      Set.of(
          "StreamingRelation",
          "StreamingRelationV2",
          "LogicalRelation",
          "HiveTableRelation",
          "DataSourceV2Relation",
          "DataSourceV2ScanRelation");
  private static final int MAX_CHARS = 16 << 20;

  private final StringBuilder out = new StringBuilder();
  private final List<LogicalPlan> leaves = new ArrayList<>();
  private final Map<DataType, String> types = new HashMap<>();

  private PlanText() {}

  /** Throws IllegalArgumentException for a plan whose text has no end in reason. */
  public static PlanText of(LogicalPlan plan) {
    PlanText text = new PlanText();
    text.plan(plan);
    return text;
  }

  public String json() {
    return out.toString();
  }

  public List<LogicalPlan> leaves() {
    return leaves;
  }

  private void plan(LogicalPlan held) {
    LogicalPlan node = HeldTable.behind(held);
    if (out.length() > MAX_CHARS) {
      throw new IllegalArgumentException("the plan is too large to be described");
    }
    out.append("{\"plan\":");
    string(node.getClass().getName());
    out.append(",\"streams\":").append(node.isStreaming());
    if (node.children().isEmpty()) {
      out.append(",\"leaf\":").append(leaves.size());
      leaves.add(node);
    }
    out.append(",\"output\":");
    sequence(held.output().iterator());
    if (node instanceof LocalRelation local) {
      out.append(",\"rows\":");
      string(digestOfRows(local));
    } else if (!TABLES.contains(node.getClass().getSimpleName())) {
      fields(node);
    }
    out.append('}');
  }

  private static String digestOfRows(LocalRelation local) {
    PlanText rows = new PlanText();
    Iterator<InternalRow> each = local.data().iterator();
    while (each.hasNext()) {
      rows.row(each.next(), local.schema());
    }
    try {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      return HexFormat.of().formatHex(digest.digest(rows.json().getBytes(StandardCharsets.UTF_8)));
    } catch (NoSuchAlgorithmException never) {
      throw new IllegalStateException(never);
    }
  }

  private void expression(Expression node) {
    if (node instanceof AttributeReference attribute) {
      attribute(attribute);
      return;
    }
    if (node instanceof Alias alias) {
      out.append("{\"alias\":").append(alias.exprId().id()).append(",\"marks\":");
      marks(alias.metadata());
      out.append(",\"child\":");
      expression(alias.child());
      out.append('}');
      return;
    }
    out.append("{\"expression\":");
    string(node.getClass().getName());
    out.append(",\"type\":");
    typeOf(node);
    if (node instanceof Literal literal) {
      out.append(",\"literal\":");
      typed(literal.value(), literal.dataType());
    } else {
      if (node instanceof CommutativeExpression) {
        out.append(",\"commutes\":true");
      }
      if (node instanceof Cast cast) {
        out.append(",\"zoned\":").append(Cast$.MODULE$.needsTimeZone(cast.child().dataType(), cast.dataType()));
      }
      fields(node);
    }
    out.append('}');
  }

  private void attribute(Attribute attribute) {
    out.append("{\"attribute\":").append(attribute.exprId().id()).append(",\"name\":");
    string(attribute.name());
    out.append(",\"type\":");
    type(attribute.dataType());
    out.append(",\"marks\":");
    marks(attribute.metadata());
    out.append('}');
  }

  /** Names of what is noted at a column, as that it is a window's. */
  private void marks(Metadata metadata) {
    List<String> names = new ArrayList<>();
    Iterator<String> each = metadata.map().keysIterator();
    while (each.hasNext()) {
      names.add(each.next());
    }
    collection(names);
  }

  private void typeOf(Expression node) {
    DataType found;
    try {
      found = node.dataType();
    } catch (Exception none) { // of a part that has no value of its own; javac does not see what Scala throws
      out.append("null");
      return;
    }
    type(found);
  }

  private void type(DataType type) {
    string(types.computeIfAbsent(type, each -> each instanceof ObjectType ? each.toString() : known(each).json()));
  }

  /** A type without an indeterminate collation, of which Spark makes no JSON. */
  private static DataType known(DataType type) {
    return SchemaUtils.hasIndeterminateCollation(type) ? SchemaUtils.replaceCollatedStringWithString(type) : type;
  }

  private void fields(Product node) {
    out.append(",\"fields\":{");
    int arity = node.productArity();
    for (int index = 0; index < arity; index++) {
      separate(index);
      string(node.productElementName(index));
      out.append(':');
      value(node.productElement(index));
    }
    if (node instanceof TreeNode<?> tree && !tree.otherCopyArgs().isEmpty()) {
      separate(arity);
      out.append("\"others\":");
      sequence(tree.otherCopyArgs().iterator());
    }
    out.append('}');
  }

  private void value(Object value) {
    if (value == null || value instanceof Boolean) {
      out.append(value);
    } else if (value instanceof LogicalPlan plan) {
      plan(plan);
    } else if (value instanceof Expression expression) {
      expression(expression);
    } else if (value instanceof DataType type) {
      out.append("{\"type\":");
      type(type);
      out.append('}');
    } else if (value instanceof Option<?> option) {
      value(option.isEmpty() ? null : option.get());
    } else if (value instanceof ExprId id) {
      out.append("{\"id\":").append(id.id()).append("}");
    } else if (!simple(value) && !many(value)) {
      object(value);
    }
  }

  private boolean simple(Object value) {
    if (value instanceof Long || value instanceof Integer || value instanceof Short || value instanceof Byte) {
      out.append(value);
    } else if (value instanceof String || value instanceof UTF8String) {
      string(value.toString());
    } else if (value instanceof Number
        || value instanceof Decimal
        || value instanceof CalendarInterval
        || value instanceof UUID
        || value instanceof URI
        || value instanceof Character
        || value instanceof Enum<?>
        || value instanceof scala.Enumeration.Value
        || value instanceof BigDecimal) {
      named("value", value.getClass(), value.toString());
    } else if (value instanceof byte[] bytes) {
      named("value", value.getClass(), HexFormat.of().formatHex(bytes));
    } else if (value instanceof Class<?> type) {
      named("value", Class.class, type.getName());
    } else if (value instanceof Metadata metadata) {
      named("value", Metadata.class, metadata.json());
    } else {
      return false;
    }
    return true;
  }

  private boolean many(Object value) {
    if (value instanceof scala.collection.Map<?, ?> map) {
      out.append("{\"map\":");
      sequence(map.iterator());
      out.append('}');
    } else if (value instanceof Map<?, ?> map) {
      out.append("{\"map\":[");
      int index = 0;
      for (Map.Entry<?, ?> entry : map.entrySet()) {
        separate(index++);
        collection(Arrays.asList(entry.getKey(), entry.getValue()));
      }
      out.append("]}");
    } else if (value instanceof scala.collection.Set<?> set) {
      out.append("{\"set\":");
      sequence(set.iterator());
      out.append('}');
    } else if (value instanceof scala.collection.Seq<?> sequence) {
      sequence(sequence.iterator());
    } else if (value instanceof Collection<?> collection) {
      collection(collection);
    } else if (value instanceof Object[] array) {
      collection(Arrays.asList(array));
    } else {
      return false;
    }
    return true;
  }

  private void object(Object value) {
    if (value instanceof BoundFunction function) {
      bound(function);
    } else if (value instanceof Product product) {
      out.append("{\"object\":");
      string(value.getClass().getName());
      fields(product);
      out.append('}');
    } else {
      String name = JavaFunctions.className(value);
      named(name == null ? "opaque" : "value", value.getClass(), name);
    }
  }

  /** A function of a catalog has a name that tells it from others, unless it leaves that to its interface, which draws one. */
  private void bound(BoundFunction function) {
    boolean told = false;
    try {
      told = function.getClass().getMethod("canonicalName").getDeclaringClass() != BoundFunction.class;
    } catch (NoSuchMethodException none) {
      told = false;
    }
    named(told ? "value" : "opaque", function.getClass(), told ? function.canonicalName() : null);
  }

  private void typed(Object value, DataType type) {
    if (value instanceof InternalRow row && type instanceof StructType struct) {
      row(row, struct);
    } else if (value instanceof ArrayData array && type instanceof ArrayType of) {
      array(array, of.elementType());
    } else if (value instanceof MapData map && type instanceof MapType of) {
      out.append("{\"keys\":");
      array(map.keyArray(), of.keyType());
      out.append(",\"values\":");
      array(map.valueArray(), of.valueType());
      out.append('}');
    } else {
      value(value);
    }
  }

  private void row(InternalRow row, StructType type) {
    out.append('[');
    for (int index = 0; index < type.length(); index++) {
      separate(index);
      DataType of = type.fields()[index].dataType();
      typed(row.isNullAt(index) ? null : row.get(index, of), of);
    }
    out.append(']');
  }

  private void array(ArrayData array, DataType of) {
    out.append('[');
    for (int index = 0; index < array.numElements(); index++) {
      separate(index);
      typed(array.isNullAt(index) ? null : array.get(index, of), of);
    }
    out.append(']');
  }

  private void sequence(Iterator<?> each) {
    out.append('[');
    for (int index = 0; each.hasNext(); index++) {
      separate(index);
      value(each.next());
    }
    out.append(']');
  }

  private void collection(Collection<?> values) {
    out.append('[');
    int index = 0;
    for (Object each : values) {
      separate(index++);
      value(each);
    }
    out.append(']');
  }

  private void named(String kind, Class<?> of, String text) {
    out.append("{\"").append(kind).append("\":");
    // The names of generated classes have numbers that no two runs share.
    string(of.isHidden() ? "a function" : of.getName());
    if (text != null) {
      out.append(",\"text\":");
      string(text);
    }
    out.append('}');
  }

  private void separate(int index) {
    if (index > 0) {
      out.append(',');
    }
  }

  private void string(String text) {
    out.append('"');
    for (int index = 0; index < text.length(); index++) {
      char each = text.charAt(index);
      if (each == '"' || each == '\\') {
        out.append('\\').append(each);
      } else if (each < 0x20 || Character.isSurrogate(each)) {
        out.append(String.format("\\u%04x", (int) each));
      } else {
        out.append(each);
      }
    }
    out.append('"');
  }
}
