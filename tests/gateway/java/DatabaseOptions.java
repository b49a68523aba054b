import dev.sparksql.files.Databases;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.LinkedHashMap;
import java.util.Map;

/** For each line of stdin, options and settings as `o:NAME=VALUE` and `s:KEY=VALUE` between tabs: a line with the refusal or `allowed`. */
final class DatabaseOptions {
    public static void main(String[] arguments) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, String> options = new LinkedHashMap<>();
            Map<String, String> settings = new LinkedHashMap<>();
            for (String part : line.split("\t")) {
                String[] pair = part.substring(2).split("=", 2);
                (part.startsWith("o:") ? options : settings).put(pair[0], pair[1]);
            }
            System.out.println(Databases.problem(options, settings).orElse("allowed"));
        }
    }
}
