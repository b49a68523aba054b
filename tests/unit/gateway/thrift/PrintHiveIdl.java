import java.io.File;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.Map;
import java.util.TreeSet;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import org.apache.thrift.TApplicationException;
import org.apache.thrift.TBase;
import org.apache.thrift.TEnum;
import org.apache.thrift.TFieldIdEnum;
import org.apache.thrift.meta_data.EnumMetaData;
import org.apache.thrift.meta_data.FieldMetaData;
import org.apache.thrift.meta_data.FieldValueMetaData;
import org.apache.thrift.meta_data.ListMetaData;
import org.apache.thrift.meta_data.MapMetaData;
import org.apache.thrift.meta_data.SetMetaData;
import org.apache.thrift.meta_data.StructMetaData;
import org.apache.thrift.protocol.TMessageType;
import org.apache.thrift.protocol.TType;

/**
 * Prints Hive's TCLIService as the classes know it that Hive generated from its IDL; the argument is their jar. A line for each
 * field of a struct (STRUCT NUMBER NAME TYPE), each value of an enum (ENUM NUMBER NAME =) and each constant of Thrift itself
 * (CLASS NUMBER NAME =), in parts divided by tabs.
 */
public final class PrintHiveIdl {
    private static final String FOLDER = "org/apache/hive/service/rpc/thrift/";

    public static void main(String[] arguments) throws Exception {
        TreeSet<String> names = new TreeSet<>();
        try (JarFile jar = new JarFile(new File(arguments[0]))) {
            jar.stream().map(JarEntry::getName).filter(name -> name.startsWith(FOLDER) && name.endsWith(".class")).forEach(names::add);
        }
        for (Class<?> constants : new Class<?>[] {TType.class, TMessageType.class, TApplicationException.class}) {
            for (Field constant : constants.getDeclaredFields()) {
                if (Modifier.isPublic(constant.getModifiers()) && Modifier.isStatic(constant.getModifiers())) {
                    print(constants.getSimpleName(), constant.get(null), constant.getName(), "=");
                }
            }
        }
        for (String name : names) {
            Class<?> found = Class.forName(name.replace('/', '.').substring(0, name.length() - ".class".length()));
            if (found.isEnum() && TEnum.class.isAssignableFrom(found)) {
                for (Object value : found.getEnumConstants()) {
                    print(shortName(found), ((TEnum) value).getValue(), value, "=");
                }
            } else if (TBase.class.isAssignableFrom(found)) {
                struct(found.asSubclass(TBase.class));
            }
        }
    }

    private static void struct(Class<? extends TBase> found) throws Exception {
        Class.forName(found.getName(), true, found.getClassLoader());
        Map<?, FieldMetaData> fields = FieldMetaData.getStructMetaDataMap(found);
        for (Map.Entry<?, FieldMetaData> field : fields.entrySet()) {
            FieldMetaData data = field.getValue();
            print(shortName(found), ((TFieldIdEnum) field.getKey()).getThriftFieldId(), data.fieldName, type(data.valueMetaData));
        }
    }

    private static String type(FieldValueMetaData value) {
        if (value instanceof StructMetaData) {
            return shortName(((StructMetaData) value).structClass);
        }
        if (value instanceof EnumMetaData) {
            return shortName(((EnumMetaData) value).enumClass);
        }
        if (value instanceof ListMetaData) {
            return "list<" + type(((ListMetaData) value).elemMetaData) + ">";
        }
        if (value instanceof SetMetaData) {
            return "set<" + type(((SetMetaData) value).elemMetaData) + ">";
        }
        if (value instanceof MapMetaData) {
            MapMetaData map = (MapMetaData) value;
            return "map<" + type(map.keyMetaData) + "," + type(map.valueMetaData) + ">";
        }
        switch (value.type) {
            case TType.BOOL: return "bool";
            case TType.BYTE: return "byte";
            case TType.DOUBLE: return "double";
            case TType.I16: return "i16";
            case TType.I32: return "i32";
            case TType.I64: return "i64";
            case TType.STRING: return value.isBinary() ? "binary" : "string";
            default: return value.getTypedefName();  // a struct that stands further down in the IDL
        }
    }

    private static String shortName(Class<?> found) {
        return found.getName().substring(FOLDER.length());
    }

    private static void print(Object... parts) {
        StringBuilder line = new StringBuilder();
        for (Object part : parts) {
            line.append(line.length() == 0 ? "" : "\t").append(part);
        }
        System.out.println(line);
    }
}
