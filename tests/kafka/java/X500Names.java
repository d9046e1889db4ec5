import java.util.HexFormat;
import javax.security.auth.x500.X500Principal;

/** Names in DER, as hexadecimal digits, to lines of hexadecimal digits: the UTF-8 of what a broker takes for the name. */
public class X500Names {
    public static void main(String[] args) throws Exception {
        for (String name : args) {
            String text = new X500Principal(HexFormat.of().parseHex(name)).getName();
            System.out.println("=" + HexFormat.of().formatHex(text.getBytes("UTF-8")));
        }
    }
}
