package dev.sparksql.files;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.hadoop.security.AccessControlException;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Decides which databases, drivers and options Spark's jdbc source takes from SQL.
 *
 * <p>Drivers open files, load classes and log where their options say, with the rights of the session's pod. So options are allowed which
 * only say how to reach a server and move data, of drivers whose options are known: PostgreSQL's 42.7. A class gives more in `allow.conf`:
 * `jdbc.SCHEME.OPTION` one option, `jdbc.SCHEME` whatever the driver of these URLs takes. What the settings of a catalog give
 * (`spark.sql.catalog.NAME.OPTION`) is the class's own choice.
 *
 * <p>JDBCOptions asks here (Confine.java builds that in): all of Spark's ways to a database make one, for each table anew, with the
 * options of catalog, table and query together.
 */
public final class Databases {
    /** Where the gateway puts the entries of `allow.conf` that begin with `jdbc.`, separated by commas. No SQL changes Spark's own. */
    public static final String ALLOWED_KEY = "spark.sparksql.jdbc.allowed";

    private static final String CATALOGS = "spark.sql.catalog.";
    private static final String URL = "url";
    private static final String DRIVER = "driver";
    private static final Pattern URLS = Pattern.compile("jdbc:([A-Za-z0-9_+.-]+):(?s:.*)");
    private static final Pattern POSTGRESQL_URL = Pattern.compile("jdbc:postgresql:[^?]*(\\?(?<options>.*))?", Pattern.DOTALL);
    private static final String POSTGRESQL = "postgresql";
    private static final Set<String> POSTGRESQL_DRIVERS = Set.of("org.postgresql.Driver");

    /** Spark 4.1's own, without those of Kerberos: they name files, change the whole JVM, or choose who logs in. */
    private static final Set<String> OF_SPARK = words(
            "batchsize cascadetruncate createtablecolumntypes createtableoptions customschema dbtable fetchsize hint isolationlevel",
            "lowerbound numpartitions partitioncolumn prefertimestampntz preparequery pushdownaggregate pushdownjoin pushdownlimit",
            "pushdownoffset pushdownpredicate pushdowntablesample query querytimeout sessioninitstatement tablecomment truncate",
            "upperbound",
            // What Spark's catalog puts beside a table's options; no driver reads it.
            "path serialization.format");

    /** PostgreSQL 42.7's, without those that name classes, files, services and logins. */
    private static final Set<String> OF_POSTGRESQL = words(
            "adaptivefetch adaptivefetchmaximum adaptivefetchminimum allowencodingchanges applicationname assumeminserverversion",
            "autosave binarytransfer binarytransferdisable binarytransferenable cancelsignaltimeout channelbinding cleanupsavepoints",
            "connecttimeout convertbooleantonumeric currentschema databasemetadatacachefields databasemetadatacachefieldsmib",
            "defaultrowfetchsize disablecolumnsanitiser escapesyntaxcallmode flushcacheonddl groupstartupparameters gssencmode",
            "gssresponsetimeout hideunprivilegedobjects hostrecheckseconds loadbalancehosts logintimeout logservererrordetail",
            "logunclosedconnections maxresultbuffer maxsendbuffersize options password pemkeyalgorithm pgdbname pghost pgport",
            "preferquerymode preparedstatementcachequeries preparedstatementcachesizemib preparethreshold protocolversion",
            "querytimeout quotereturningidentifiers readonly readonlymode receivebuffersize replication requireauth",
            "rewritebatchedinserts rewritebatchedinsertssize scrammaxiterations sendbuffersize sockettimeout ssl sslmode",
            "sslnegotiation sslpassword sslresponsetimeout stringtype targetservertype tcpkeepalive tcpnodelay unknownlength user");

    private Databases() {}

    /** Refuses options that SQL may not give the jdbc source: AccessControlException. */
    public static void check(CaseInsensitiveMap<String> given) throws AccessControlException {
        Map<String, String> settings = new LinkedHashMap<>();
        if (SparkEnv.get() != null) {
            for (Tuple2<String, String> setting : SparkEnv.get().conf().getAll()) {
                settings.put(setting._1(), setting._2());
            }
        }
        Optional<String> problem = problem(CollectionConverters.asJava(given.originalMap()), settings);
        if (problem.isPresent()) {
            throw new ConfinedException(problem.get());
        }
    }

    /** Refuses the databases of Hadoop's input formats, whose drivers and URLs the properties of a table would name. */
    public static void refuse() throws AccessControlException {
        throw new ConfinedException("mapreduce.jdbc: SQL may not read a database through a format of Hadoop's; create the table USING jdbc");
    }

    /** Why options may not be given, empty if they may. Values are not shown: they may be secret. */
    public static Optional<String> problem(Map<String, String> given, Map<String, String> settings) {
        Map<String, String> asked = new TreeMap<>();
        given.forEach((name, value) -> {
            if (!isOfCatalog(name, value, settings)) {
                asked.put(name, value);
            }
        });
        Set<String> allowed = Stream.of(settings.getOrDefault(ALLOWED_KEY, "").split(","))
                .map(name -> name.strip().toLowerCase(Locale.ROOT))
                .collect(Collectors.toSet());
        for (Map.Entry<String, String> url : given.entrySet()) {
            if (url.getKey().equalsIgnoreCase(URL)) {
                Matcher parts = URLS.matcher(String.valueOf(url.getValue()));
                if (!parts.matches()) {
                    return Optional.of("option 'url' must be jdbc:SCHEME:..., as jdbc:postgresql://HOST/DATABASE");
                }
                Optional<String> problem = problem(parts.group(1), asked, allowed);
                if (problem.isPresent()) {
                    return problem;
                }
            }
        }
        return Optional.empty(); // without a URL Spark itself asks for one
    }

    private static Optional<String> problem(String scheme, Map<String, String> asked, Set<String> allowed) {
        String ours = "jdbc." + scheme.toLowerCase(Locale.ROOT);
        if (allowed.contains(ours)) {
            return Optional.empty();
        }
        boolean isKnown = scheme.equals(POSTGRESQL);
        for (Map.Entry<String, String> option : asked.entrySet()) {
            String name = option.getKey().toLowerCase(Locale.ROOT);
            String value = String.valueOf(option.getValue());
            if (name.equals(URL)) {
                if (!isKnown) {
                    return Optional.of("option 'url' may not begin with jdbc:" + scheme + ": SQL reaches databases by jdbc:postgresql: alone; "
                            + "have the session's class name " + ours + " in allow.conf, or give this URL to a catalog of its own");
                }
                for (String inUrl : optionsOf(value)) {
                    if (!isAllowed(inUrl.toLowerCase(Locale.ROOT), true, ours, allowed)) {
                        return Optional.of(refusal(inUrl, "in option 'url' ", ours));
                    }
                }
            } else if (name.equals(DRIVER) ? !(isKnown && POSTGRESQL_DRIVERS.contains(value)) : !isAllowed(name, isKnown, ours, allowed)) {
                return Optional.of(refusal(option.getKey(), "", ours));
            }
        }
        return Optional.empty();
    }

    private static boolean isAllowed(String name, boolean isKnown, String ours, Set<String> allowed) {
        return OF_SPARK.contains(name)
                || isKnown && OF_POSTGRESQL.contains(name)
                || Set.of("user", "password").contains(name)
                || allowed.contains(ours + "." + name);
    }

    /** The names that a URL's options are written with; PostgreSQL's driver reads no escapes in them. */
    private static List<String> optionsOf(String url) {
        Matcher parts = POSTGRESQL_URL.matcher(url);
        if (!parts.matches() || parts.group("options") == null) {
            return List.of();
        }
        return Stream.of(parts.group("options").split("&")).filter(each -> !each.isEmpty()).map(each -> each.split("=", 2)[0]).toList();
    }

    private static boolean isOfCatalog(String name, String value, Map<String, String> settings) {
        return settings.entrySet().stream().anyMatch(setting -> {
            String key = setting.getKey();
            int dot = key.startsWith(CATALOGS) ? key.indexOf('.', CATALOGS.length()) : -1;
            return dot > 0 && key.substring(dot + 1).equalsIgnoreCase(name) && setting.getValue().equals(value);
        });
    }

    private static String refusal(String name, String where, String ours) {
        String shown = name.substring(0, Math.min(name.length(), 100));
        return "option '" + shown + "' " + where + "of the jdbc source is not allowed: it is not one of those that only say how to reach a server "
                + "and move data; leave it out, or have the session's class name " + ours + "." + shown.toLowerCase(Locale.ROOT)
                + " in allow.conf, or give it to a catalog of its own";
    }

    private static Set<String> words(String... lines) {
        return Set.of(String.join(" ", lines).split(" "));
    }
}
