package dev.sparksql.streaming;

import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.List;
import java.util.Map;

/**
 * Iceberg's operations on a table, with a commit that refuses a batch which the table has already.
 *
 * <p>Iceberg's own sink looks for the batch and then commits; the commit takes the newest state of the table for its base, so that one
 * of another driver which lands in between is not seen. Here the look is part of the commit: the base that it looks at is the one that
 * Iceberg replaces, or the commit fails and is tried again with another base.
 *
 * <p>By reflection, because an image need not have Iceberg.
 */
public final class CommitOnce implements InvocationHandler {
    private static final String ICEBERG = "org.apache.iceberg.";

    private final Object operations;
    private final String queryKey;
    private final String batchKey;
    private final Class<?> shape;
    private final Method current;
    private final Method changes;
    private final Method snapshot;
    private final Class<?> addition;
    private final Method added;
    private final Method summary;
    private final Method parent;
    private final Constructor<?> refusal;

    private CommitOnce(Object operations, String queryKey, String batchKey) throws ReflectiveOperationException {
        this.operations = operations;
        this.queryKey = queryKey;
        this.batchKey = batchKey;
        shape = iceberg("TableOperations");
        current = shape.getMethod("current");
        Class<?> metadata = iceberg("TableMetadata");
        changes = metadata.getMethod("changes");
        snapshot = metadata.getMethod("snapshot", long.class);
        addition = iceberg("MetadataUpdate$AddSnapshot");
        added = addition.getMethod("snapshot");
        summary = iceberg("Snapshot").getMethod("summary");
        parent = iceberg("Snapshot").getMethod("parentId");
        refusal = iceberg("exceptions.ValidationException").getConstructor(String.class, Object[].class);
    }

    /**
     * Returns what guards TableOperations. The two keys are properties of a snapshot: the query that it is of, and the number of the
     * query's batch; a snapshot without them is committed as ever.
     */
    public static CommitOnce of(Object operations, String queryKey, String batchKey) throws ReflectiveOperationException {
        return new CommitOnce(operations, queryKey, batchKey);
    }

    /** Returns TableOperations like the given ones, with such a commit. */
    public Object operations() {
        return Proxy.newProxyInstance(shape.getClassLoader(), new Class<?>[] {shape}, this);
    }

    /** Returns whether a batch of a query, or a later one, is in a snapshot or in one before it, null for none, as the table was read. */
    public boolean holds(Object head, String query, long batch) throws ReflectiveOperationException {
        return holds(current.invoke(operations), head, query, batch);
    }

    @Override
    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
        if (method.getName().equals("commit") && arguments[0] != null) {
            for (Object change : (List<?>) changes.invoke(arguments[1])) {
                if (addition.isInstance(change)) {
                    check(arguments[0], added.invoke(change));
                }
            }
        }
        try {
            return method.invoke(operations, arguments);
        } catch (InvocationTargetException thrown) {
            throw thrown.getCause();
        }
    }

    /** Throws Iceberg's ValidationException, after which it removes what it has written for the commit, and does not try again. */
    private void check(Object base, Object made) throws Throwable {
        Map<?, ?> properties = (Map<?, ?>) summary.invoke(made);
        Object query = properties.get(queryKey);
        Object batch = properties.get(batchKey);
        if (query != null && batch != null && holds(base, before(base, made), query, number(batch))) {
            throw (Throwable) refusal.newInstance("Batch %s of query %s is in the table already", new Object[] {batch, query});
        }
    }

    private boolean holds(Object metadata, Object head, Object query, long batch) throws ReflectiveOperationException {
        for (Object each = head; each != null; each = before(metadata, each)) {
            Map<?, ?> properties = (Map<?, ?>) summary.invoke(each);
            if (query.equals(properties.get(queryKey)) && properties.get(batchKey) != null) {
                return number(properties.get(batchKey)) >= batch; // batches come in order
            }
        }
        return false;
    }

    private Object before(Object base, Object each) throws ReflectiveOperationException {
        Object id = parent.invoke(each);
        return id == null ? null : snapshot.invoke(base, id);
    }

    private static long number(Object batch) {
        return Long.parseLong(batch.toString());
    }

    private Class<?> iceberg(String name) throws ClassNotFoundException {
        return Class.forName(ICEBERG + name, true, operations.getClass().getClassLoader());
    }
}
