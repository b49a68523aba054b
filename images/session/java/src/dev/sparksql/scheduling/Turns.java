package dev.sparksql.scheduling;

import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.SchedulingAlgorithm;
import org.apache.spark.scheduler.TaskSetManager;

/**
 * Says who among those that share executors is offered a free one first.
 *
 * <p>Spark's FairSchedulingAlgorithm compares how many tasks each runs for its weight, and then their names. Where one task runs at a
 * time nobody runs any when its place is free: the smaller name then takes it each time, and the other waits until that has ended. Here
 * the one that has had less for its weight goes first (start-time fair queueing, Goyal et al., SIGCOMM 1996); who comes anew starts
 * where those that are there have got to, so that it neither waits for them nor they for it.
 *
 * <p>Invariant: it is asked and told by the thread that holds the lock of Spark's TaskSchedulerImpl.
 */
public final class Turns implements SchedulingAlgorithm {
    private double now;

    /** Makes a pool order what is in it so. Throws NoSuchFieldException if Spark keeps its order elsewhere than in 4.1. */
    public static Turns of(Pool pool) throws ReflectiveOperationException {
        Turns turns = new Turns();
        var algorithm = Pool.class.getDeclaredField("taskSetSchedulingAlgorithm");
        algorithm.setAccessible(true);
        algorithm.set(pool, turns);
        return turns;
    }

    @Override
    public boolean comparator(Schedulable one, Schedulable other) {
        int order = Boolean.compare(isNeedy(other), isNeedy(one));
        if (order == 0) {
            order = isNeedy(one)
                    ? Double.compare(share(one, one.minShare()), share(other, other.minShare()))
                    : Double.compare(share(one, one.weight()), share(other, other.weight()));
        }
        if (order == 0) {
            order = Double.compare(had(one), had(other));
        }
        return order == 0 ? one.name().compareTo(other.name()) < 0 : order < 0;
    }

    /** Returns when the next task of one ends that had `finish` as the end of its last, each task taking its weight's inverse. */
    double took(double finish, int weight) {
        now = Math.max(now, finish);
        return now + 1.0 / weight;
    }

    private static boolean isNeedy(Schedulable each) {
        return each.runningTasks() < each.minShare();
    }

    private static double share(Schedulable each, int of) {
        return (double) each.runningTasks() / Math.max(of, 1);
    }

    private double had(Schedulable each) {
        if (each instanceof StatementPool pool) {
            return Math.max(now, pool.finish());
        }
        return each instanceof TaskSetManager tasks ? tasks.tasksSuccessful() : now;
    }
}
