package dev.sparksql.scheduling;

import org.apache.spark.scheduler.Pool;
import scala.Enumeration;

/** The pool of a statement, or of a client's session, which counts what it has had. */
public final class StatementPool extends Pool {
    private final Turns among;
    private double finish;

    /** `among` is the order of the pool that this one is in. */
    public StatementPool(String name, Enumeration.Value mode, int weight, Turns among) throws ReflectiveOperationException {
        super(name, mode, 0, weight);
        this.among = among;
        if (mode.toString().equals("FAIR")) {
            Turns.of(this);
        }
    }

    @Override
    public void increaseRunningTasks(int count) {
        for (int each = 0; each < count; each++) {
            finish = among.took(finish, weight());
        }
        super.increaseRunningTasks(count);
    }

    double finish() {
        return finish;
    }
}
