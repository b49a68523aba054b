import java.io.IOException;
import java.io.InputStream;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiFunction;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.jar.JarOutputStream;
import java.util.stream.Stream;
import org.apache.xbean.asm9.ClassReader;
import org.apache.xbean.asm9.ClassVisitor;
import org.apache.xbean.asm9.ClassWriter;
import org.apache.xbean.asm9.MethodVisitor;
import org.apache.xbean.asm9.Opcodes;
import org.apache.xbean.asm9.Type;

/**
 * Makes the jar that confines Hadoop's local file system. Usage: Confine SPARK_JARS CLASSES JAR
 *
 * <p>The jar has the classes below CLASSES and Hadoop's own RawLocalFileSystem, in which every way from a path to a file passes through
 * Confinement. It must come first on the class path. Why the class and not a setting: `fs.file.impl` and its neighbours can be set by an
 * option of any table, and some parts of Hadoop and Hive make a local file system without asking any setting. Hadoop turns paths into
 * files in pathToFile; the methods that do not are sent there first. Hive's Avro reader asks Java for what Hadoop has no file system for
 * (`avro.schema.url`); it gets what is on the network. Spark's jdbc source opens no database that is embedded in Spark. Options and
 * properties of tables, which Spark and Hive put into Hadoop's settings, set nothing of its file systems: some read files that a setting
 * names, and send them. The build fails if one of these is no longer what it was.
 *
 * <p>Where Hadoop's native library is not there, as in Spark's own distribution, RawLocalFileSystem starts a program (`chmod`, `readlink`)
 * for each file that it makes or moves: a small query of a stream started some 120. Java does both itself.
 */
public final class Confine {
    private static final String RAW_LOCAL = "org/apache/hadoop/fs/RawLocalFileSystem";
    private static final String PATH = "Lorg/apache/hadoop/fs/Path;";
    private static final String TO_FILE = "pathToFile";
    private static final String TO_FILE_TYPE = "(" + PATH + ")Ljava/io/File;";
    private static final String AVRO = "org/apache/hadoop/hive/serde2/avro/AvroSerdeUtils";
    private static final String DRIVERS = "org/apache/spark/sql/execution/datasources/jdbc/DriverRegistry$";
    private static final String OPTIONS = "org/apache/spark/sql/internal/SessionState";
    private static final String PROPERTIES = "org/apache/hadoop/hive/ql/exec/Utilities";
    private static final String JDBC = "org/apache/spark/sql/execution/datasources/jdbc/JDBCOptions";
    private static final String DB = "org/apache/hadoop/mapreduce/lib/db/DBConfiguration";
    private static final String PROTOBUF = "org/apache/spark/sql/util/ProtobufUtils$";
    private static final String IN_FILE = "org/apache/hadoop/hive/ql/udf/generic/GenericUDFInFile";
    private static final String GRAMMAR = "org/apache/hadoop/hive/serde2/dynamic_type/thrift_grammar";
    private static final String DATABASES = "dev/sparksql/files/Databases";
    private static final String CONFINEMENT = "dev/sparksql/files/Confinement";
    private static final String CHECK_PATH = CONFINEMENT + ".checkPath(Ljava/lang/String;)V";
    private static final String PERMISSION = "org/apache/hadoop/fs/permission/FsPermission";
    private static final String SET_PERMISSION = "setPermission";
    private static final String SET_PERMISSION_TYPE = "(" + PATH + "L" + PERMISSION + ";)V";
    private static final List<String> BESIDE_IT = List.of("createSymlink", "getFileLinkStatusInternal");
    private static final List<String> DOORS = List.of("createSymlink", "getFileLinkStatusInternal", TO_FILE, "readLink", SET_PERMISSION);

    public static void main(String[] arguments) throws IOException {
        Path classes = Path.of(arguments[1]);
        try (JarOutputStream jar = new JarOutputStream(Files.newOutputStream(Path.of(arguments[2])));
                Stream<Path> own = Files.walk(classes)) {
            for (Path file : (Iterable<Path>) own.filter(Files::isRegularFile).sorted()::iterator) {
                write(jar, classes.relativize(file).toString(), Files.readAllBytes(file));
            }
            Path spark = Path.of(arguments[0]);
            write(jar, RAW_LOCAL + ".class", changed(spark, "hadoop-client-api-*.jar", RAW_LOCAL, Confine::local, DOORS));
            write(jar, DRIVERS + ".class", changed(spark, "spark-sql_*.jar", DRIVERS, Confine::drivers, List.of("register")));
            write(jar, JDBC + ".class", changed(spark, "spark-sql_*.jar", JDBC, Confine::databases, List.of("<init>")));
            write(jar, DB + ".class", changed(spark, "hadoop-client-api-*.jar", DB, Confine::connections, List.of("getConnection")));
            write(jar, PROTOBUF + ".class", changed(spark, "spark-sql-api_*.jar", PROTOBUF, Confine::descriptors, List.of("readDescriptorFileContent")));
            write(jar, IN_FILE + ".class", changed(spark, "hive-exec-*.jar", IN_FILE, Confine::lists, List.of("getReaderFor")));
            write(jar, GRAMMAR + ".class", changed(spark, "hive-serde-*.jar", GRAMMAR, Confine::includes, List.of("Include")));
            write(jar, AVRO + ".class", changed(spark, "hive-serde-*.jar", AVRO, Confine::urls, List.of("openStream")));
            write(jar, OPTIONS + ".class", changed(spark, "spark-sql_*.jar", OPTIONS, Confine::options, List.of("set")));
            write(jar, PROPERTIES + ".class", changed(spark, "hive-exec-*.jar", PROPERTIES, Confine::properties, List.of("set", "set")));
        }
    }

    private static ClassVisitor local(ClassVisitor next, List<String> changed) {
        String type = "(Ljava/io/File;)Ljava/lang/String;";
        ClassVisitor links = new Calls(next, changed, "LinkStatus", "org/apache/hadoop/fs/FileUtil.readLink" + type, "readLink", type);
        return new Doors(links, changed);
    }

    private static ClassVisitor urls(ClassVisitor next, List<String> changed) {
        String type = "(Ljava/net/URL;)Ljava/io/InputStream;";
        return new Calls(next, changed, "", "java/net/URL.openStream()Ljava/io/InputStream;", "open", type);
    }

    private static ClassVisitor options(ClassVisitor next, List<String> changed) {
        return settings(next, changed, "newHadoopConfWithOptions");
    }

    private static ClassVisitor properties(ClassVisitor next, List<String> changed) {
        return settings(next, changed, "copyTableJobPropertiesToConf");
    }

    private static ClassVisitor settings(ClassVisitor next, List<String> changed, String inside) {
        String type = "(Lorg/apache/hadoop/conf/Configuration;Ljava/lang/String;Ljava/lang/String;)V";
        String set = "org/apache/hadoop/conf/Configuration.set(Ljava/lang/String;Ljava/lang/String;)V";
        return new Calls(next, changed, inside, set, "setOption", type);
    }

    private static ClassVisitor drivers(ClassVisitor next, List<String> changed) {
        return new Entrance(next, changed, "register", "(Ljava/lang/String;)", 1, CONFINEMENT + ".checkDriver(Ljava/lang/String;)V");
    }

    private static ClassVisitor databases(ClassVisitor next, List<String> changed) {
        String given = "(Lorg/apache/spark/sql/catalyst/util/CaseInsensitiveMap;)";
        return new Entrance(next, changed, "<init>", given, 1, DATABASES + ".check" + given + "V");
    }

    private static ClassVisitor connections(ClassVisitor next, List<String> changed) {
        return new Entrance(next, changed, "getConnection", "()", -1, DATABASES + ".refuse()V");
    }

    private static ClassVisitor descriptors(ClassVisitor next, List<String> changed) {
        return new Entrance(next, changed, "readDescriptorFileContent", "(Ljava/lang/String;)", 1, CHECK_PATH);
    }

    private static ClassVisitor lists(ClassVisitor next, List<String> changed) {
        return new Entrance(next, changed, "getReaderFor", "(Ljava/lang/String;)", 1, CHECK_PATH);
    }

    private static ClassVisitor includes(ClassVisitor next, List<String> changed) {
        return new Entrance(next, changed, "Include", "()", -1, CONFINEMENT + ".refuseInclude()V");
    }

    private static void write(JarOutputStream jar, String name, byte[] content) throws IOException {
        JarEntry entry = new JarEntry(name);
        entry.setTime(0); // the same jar from the same sources
        jar.putNextEntry(entry);
        jar.write(content);
        jar.closeEntry();
    }

    private static byte[] changed(
            Path folder, String jars, String name, BiFunction<ClassVisitor, List<String>, ClassVisitor> visitor, List<String> expected)
            throws IOException {
        List<String> changed = new ArrayList<>();
        ClassWriter writer = new ClassWriter(ClassWriter.COMPUTE_MAXS);
        try (DirectoryStream<Path> found = Files.newDirectoryStream(folder, jars);
                JarFile jar = new JarFile(found.iterator().next().toFile());
                InputStream original = jar.getInputStream(jar.getJarEntry(name + ".class"))) {
            new ClassReader(original).accept(visitor.apply(writer, changed), 0);
        }
        if (!changed.stream().sorted().toList().equals(expected)) {
            throw new IllegalStateException(name + " is not what it was: found " + changed + ", expected " + expected);
        }
        return writer.toByteArray();
    }

    private static final class Doors extends ClassVisitor {
        private final List<String> changed;

        Doors(ClassVisitor next, List<String> changed) {
            super(Opcodes.ASM9, next);
            this.changed = changed;
        }

        @Override
        public MethodVisitor visitMethod(int access, String name, String type, String signature, String[] exceptions) {
            MethodVisitor next = super.visitMethod(access, name, type, signature, exceptions);
            if (name.equals(SET_PERMISSION) && type.equals(SET_PERMISSION_TYPE)) {
                changed.add(name);
                writeSetPermission(next);
                return null; // Hadoop's own way
            }
            if (name.equals(TO_FILE) && type.equals(TO_FILE_TYPE)) {
                changed.add(name);
                return new CheckedResult(next);
            }
            if (BESIDE_IT.contains(name)) {
                changed.add(name);
                return new CheckedPaths(next, Type.getArgumentTypes(type));
            }
            return next;
        }
    }

    /** Confinement.setPermission(pathToFile(path), permission.toShort()) */
    private static void writeSetPermission(MethodVisitor method) {
        method.visitCode();
        method.visitVarInsn(Opcodes.ALOAD, 0);
        method.visitVarInsn(Opcodes.ALOAD, 1);
        method.visitMethodInsn(Opcodes.INVOKEVIRTUAL, RAW_LOCAL, TO_FILE, TO_FILE_TYPE, false);
        method.visitVarInsn(Opcodes.ALOAD, 2);
        method.visitMethodInsn(Opcodes.INVOKEVIRTUAL, PERMISSION, "toShort", "()S", false);
        method.visitMethodInsn(Opcodes.INVOKESTATIC, CONFINEMENT, SET_PERMISSION, "(Ljava/io/File;S)V", false);
        method.visitInsn(Opcodes.RETURN);
        method.visitMaxs(0, 0); // computed
        method.visitEnd();
    }

    private static final class CheckedResult extends MethodVisitor {
        CheckedResult(MethodVisitor next) {
            super(Opcodes.ASM9, next);
        }

        @Override
        public void visitInsn(int opcode) {
            if (opcode == Opcodes.ARETURN) {
                super.visitMethodInsn(
                        Opcodes.INVOKESTATIC, CONFINEMENT, "checked", "(Ljava/io/File;)Ljava/io/File;", false);
            }
            super.visitInsn(opcode);
        }
    }

    private static final class CheckedPaths extends MethodVisitor {
        private final Type[] parameters;

        CheckedPaths(MethodVisitor next, Type[] parameters) {
            super(Opcodes.ASM9, next);
            this.parameters = parameters;
        }

        @Override
        public void visitCode() {
            super.visitCode();
            int slot = 1;
            for (Type parameter : parameters) {
                if (parameter.getDescriptor().equals(PATH)) {
                    super.visitVarInsn(Opcodes.ALOAD, 0);
                    super.visitVarInsn(Opcodes.ALOAD, slot);
                    super.visitMethodInsn(Opcodes.INVOKEVIRTUAL, RAW_LOCAL, TO_FILE, TO_FILE_TYPE, false);
                    super.visitInsn(Opcodes.POP);
                }
                slot += parameter.getSize();
            }
        }
    }

    /** A method that first calls one of ours, with the argument in a slot; with none for slot -1. */
    private static final class Entrance extends ClassVisitor {
        private final List<String> changed;
        private final String method;
        private final String type;
        private final int slot;
        private final String call;

        Entrance(ClassVisitor next, List<String> changed, String method, String type, int slot, String call) {
            super(Opcodes.ASM9, next);
            this.changed = changed;
            this.method = method;
            this.type = type;
            this.slot = slot;
            this.call = call;
        }

        @Override
        public MethodVisitor visitMethod(int access, String name, String methodType, String signature, String[] exceptions) {
            MethodVisitor next = super.visitMethod(access, name, methodType, signature, exceptions);
            if (!name.equals(method) || !methodType.startsWith(type)) {
                return next;
            }
            changed.add(name);
            String owner = call.substring(0, call.indexOf('.'));
            String ours = call.substring(call.indexOf('.') + 1, call.indexOf('('));
            return new MethodVisitor(Opcodes.ASM9, next) {
                @Override
                public void visitCode() {
                    super.visitCode();
                    if (slot >= 0) {
                        super.visitVarInsn(Opcodes.ALOAD, slot);
                    }
                    super.visitMethodInsn(Opcodes.INVOKESTATIC, owner, ours, call.substring(call.indexOf('(')), false);
                }
            };
        }
    }

    /** Calls of one method of another class, inside of methods with a certain name, become calls of Confinement's. */
    private static final class Calls extends ClassVisitor {
        private final List<String> changed;
        private final String inside;
        private final String call;
        private final String instead;
        private final String type;

        Calls(ClassVisitor next, List<String> changed, String inside, String call, String instead, String type) {
            super(Opcodes.ASM9, next);
            this.changed = changed;
            this.inside = inside;
            this.call = call;
            this.instead = instead;
            this.type = type;
        }

        @Override
        public MethodVisitor visitMethod(int access, String name, String type, String signature, String[] exceptions) {
            MethodVisitor next = super.visitMethod(access, name, type, signature, exceptions);
            return name.contains(inside) ? new Redirected(next) : next;
        }

        private final class Redirected extends MethodVisitor {
            Redirected(MethodVisitor next) {
                super(Opcodes.ASM9, next);
            }

            @Override
            public void visitMethodInsn(int opcode, String owner, String method, String methodType, boolean isInterface) {
                if ((owner + "." + method + methodType).equals(call)) {
                    changed.add(method);
                    super.visitMethodInsn(Opcodes.INVOKESTATIC, CONFINEMENT, instead, type, false);
                } else {
                    super.visitMethodInsn(opcode, owner, method, methodType, isInterface);
                }
            }
        }
    }
}
