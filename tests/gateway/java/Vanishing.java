import dev.sparksql.files.Confinement;
import java.io.File;
import java.util.concurrent.atomic.AtomicBoolean;

/** Looks at a folder while it is made and deleted again and again; prints how often it was refused. */
public final class Vanishing {
    private static final int LOOKS = 200_000;

    public static void main(String[] arguments) throws Exception {
        File folder = new File(arguments[0], "temporary");
        AtomicBoolean isOver = new AtomicBoolean();
        Thread other = new Thread(() -> {
            while (!isOver.get()) {
                folder.mkdir();
                folder.delete();
            }
        });
        other.start();
        int refused = 0;
        for (int look = 0; look < LOOKS; look++) {
            try {
                Confinement.checked(folder);
            } catch (org.apache.hadoop.security.AccessControlException refusal) {
                refused++;
            }
        }
        isOver.set(true);
        other.join();
        System.out.println(refused + " refused");
    }
}
