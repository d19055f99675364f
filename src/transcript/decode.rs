//! From bytes to text, whatever encoding a program wrote in.
//!
//! UTF-8 is tried first, line by line, since programs of different minds share a terminal. Only
//! lines that are not UTF-8 are looked at more closely: the session's locale has the first word,
//! then a detector over all of them together.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8};

use super::utf16;

/// What is looked at to find an encoding.
const SAMPLE: usize = 64 * 1024;
/// Fewer bytes than this are a guess.
const SURE: usize = 8;

/// What the session's locale says of the encoding and the language.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hint {
    charset: Option<&'static Encoding>,
    territory: Option<String>,
}

impl Hint {
    /// Reads the locale off a session's environment, as the C library does.
    pub fn of_environment(env: &[(String, String)]) -> Self {
        let value = |name: &str| {
            let found = env.iter().rfind(|(key, value)| key == name && !value.is_empty());
            found.map(|(_, value)| value.as_str())
        };
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(value);
        locale.map(Self::of_locale).unwrap_or_default()
    }

    /// Reads a value of `LC_ALL`, `LC_CTYPE` or `LANG`, as in `zh_CN.GBK`.
    pub fn of_locale(locale: &str) -> Self {
        let locale = locale.split('@').next().unwrap_or_default();
        let (language, charset) = locale.split_once('.').unwrap_or((locale, ""));
        let territory = language.split_once('_').map(|(_, territory)| territory);
        Self {
            charset: charset_of(charset),
            territory: territory
                .filter(|text| text.len() == 2 && text.bytes().all(|b| b.is_ascii_alphabetic()))
                .map(str::to_ascii_lowercase),
        }
    }
}

/// The C library's name for a charset is not always the web's.
fn charset_of(name: &str) -> Option<&'static Encoding> {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let plain = plain.to_ascii_lowercase();
    let label = match plain.as_str() {
        "eucjp" | "ujis" => "euc-jp",
        "euckr" => "euc-kr",
        "euccn" | "gb2312" => "gb2312",
        "sjis" | "shiftjis" | "cp932" => "shift_jis",
        "big5hkscs" => "big5-hkscs",
        "koi8r" => "koi8-r",
        "koi8u" => "koi8-u",
        other => match other.strip_prefix("iso8859") {
            Some(part) => return Encoding::for_label(format!("iso-8859-{part}").as_bytes()),
            None => other,
        },
    };
    Encoding::for_label(label.as_bytes()).filter(|found| *found != UTF_8)
}

/// How the bytes of one command are read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    lines: Lines,
    /// True when the encoding was found from few bytes and nothing else spoke for it.
    pub guessed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Lines {
    /// Everything is UTF-8, or what is not is damaged UTF-8 or no text at all.
    Utf8,
    /// UTF-16, and perhaps lines before and after it that are UTF-8.
    Utf16(&'static Encoding),
    /// Lines that are not UTF-8 are in this encoding; `alone` when no others are beyond ASCII.
    Other { encoding: &'static Encoding, alone: bool },
}

impl Reading {
    /// Looks at all bytes that are to be read alike.
    pub fn of<'a>(pieces: impl IntoIterator<Item = &'a [u8]> + Clone, hint: &Hint) -> Self {
        let sure = |lines| Self { lines, guessed: false };
        if pieces
            .clone()
            .into_iter()
            .all(|piece| utf16::encoding_of(piece).is_none() && valid(piece))
        {
            return sure(Lines::Utf8);
        }
        if let Some(encoding) = pieces.clone().into_iter().find_map(utf16::encoding_of) {
            return sure(Lines::Utf16(encoding));
        }
        let (sample, alone) = sample(pieces.clone(), false);
        if sample.is_empty() || is_binary(&sample) {
            return sure(Lines::Utf8);
        }
        let known = hint.charset.filter(|charset| reads(charset, &sample));
        let encoding = known.unwrap_or_else(|| detect(&sample, hint));
        // Anything can be read as a code page of single bytes, so that says little against UTF-8.
        let (sample, alone) = match encoding.is_single_byte() {
            true => self::sample(pieces, true),
            false => (sample, alone),
        };
        if sample.is_empty() {
            return sure(Lines::Utf8);
        }
        let beyond_ascii = sample.iter().filter(|byte| !byte.is_ascii()).count();
        let guessed = known.is_none() && beyond_ascii < SURE;
        Self { lines: Lines::Other { encoding, alone }, guessed }
    }

    /// The encoding's name: `utf-8`, `gbk`, `utf-8+gbk` for a mixture.
    pub fn label(&self) -> String {
        match self.lines {
            Lines::Utf8 => "utf-8".to_owned(),
            Lines::Utf16(encoding) | Lines::Other { encoding, alone: true } => {
                encoding.name().to_ascii_lowercase()
            }
            Lines::Other { encoding, .. } => {
                format!("utf-8+{}", encoding.name().to_ascii_lowercase())
            }
        }
    }

    /// Reads a piece. What cannot be read becomes U+FFFD.
    pub fn decode<'a>(&self, bytes: &'a [u8]) -> Cow<'a, str> {
        match self.lines {
            Lines::Utf8 => String::from_utf8_lossy(bytes),
            Lines::Utf16(encoding) => {
                let range = utf16::range_of(encoding, bytes);
                let [before, after] = [&bytes[..range.start], &bytes[range.end..]];
                // The second half of a line end whose first is in another piece.
                let before = before.strip_suffix(b"\0").unwrap_or(before);
                let mut text = String::from_utf8_lossy(before).into_owned();
                text.push_str(&utf16::decode(encoding, &bytes[range]));
                text.push_str(&String::from_utf8_lossy(after));
                Cow::Owned(text)
            }
            Lines::Other { encoding, .. } => match std::str::from_utf8(bytes) {
                Ok(text) => Cow::Borrowed(text),
                Err(_) => Cow::Owned(decode_lines(encoding, bytes)),
            },
        }
    }
}

/// Reads a piece on its own.
pub fn decode<'a>(bytes: &'a [u8], hint: &Hint) -> Cow<'a, str> {
    Reading::of([bytes], hint).decode(bytes)
}

/// UTF-8, perhaps with its last character not complete.
fn valid(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).map_or_else(|error| error.error_len().is_none(), |_| true)
}

fn reads(encoding: &'static Encoding, bytes: &[u8]) -> bool {
    encoding.decode_without_bom_handling_and_without_replacement(bytes).is_some()
}

fn detect(sample: &[u8], hint: &Hint) -> &'static Encoding {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(sample, true);
    detector.guess(hint.territory.as_deref().map(str::as_bytes), Utf8Detection::Deny)
}

/// The beginning of all lines that are not UTF-8, and whether the others are ASCII.
fn sample<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, lenient: bool) -> (Vec<u8>, bool) {
    let mut sample = Vec::new();
    let mut alone = true;
    for line in pieces.into_iter().flat_map(lines) {
        if valid(line) || is_damaged_utf8(line, lenient) {
            alone &= line.is_ascii();
        } else if sample.len() < SAMPLE {
            sample.extend_from_slice(&line[..line.len().min(SAMPLE)]);
        }
    }
    (sample, alone)
}

/// Lines with their ends.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|&byte| byte == b'\n')
}

fn decode_lines(encoding: &'static Encoding, bytes: &[u8]) -> String {
    let lenient = encoding.is_single_byte();
    let mut text = String::with_capacity(bytes.len() * 3 / 2);
    for line in lines(bytes) {
        match std::str::from_utf8(line) {
            Ok(line) => text.push_str(line),
            Err(_) if is_damaged_utf8(line, lenient) => {
                text.push_str(&String::from_utf8_lossy(line))
            }
            Err(_) => {
                let (line, _) = encoding.decode_without_bom_handling(line);
                // Code pages put 8-bit controls where they have no letter. Those would be obeyed.
                text.extend(line.chars().map(|ch| match ch {
                    '\u{80}'..='\u{9f}' => char::REPLACEMENT_CHARACTER,
                    ch => ch,
                }));
            }
        }
    }
    text
}

/// UTF-8 with some bytes missing, or with code points that must not be written in it: most of what
/// is beyond ASCII has its form. In no other encoding is that likely. A `lenient` look is content
/// with as many good characters as bad bytes.
fn is_damaged_utf8(line: &[u8], lenient: bool) -> bool {
    let (mut good, mut whole, mut broken) = (0, 0, 0);
    let mut bad = 0;
    let mut at = 0;
    while let Some(&lead) = line.get(at) {
        let follow = match lead {
            0x00..=0x7f => 0,
            0xc2..=0xdf => 1,
            0xe0..=0xef => 2,
            0xf0..=0xf4 => 3,
            _ => usize::MAX,
        };
        let run = line[at + 1..].iter().take(3).take_while(|&&b| matches!(b, 0x80..=0xbf)).count();
        at += 1;
        if follow == 0 {
            continue;
        }
        if run >= follow {
            at += follow;
            // Two bytes often look like UTF-8 by chance, three seldom.
            good += if follow > 1 { 3 } else { 1 };
            whole += 1;
        } else {
            at += run;
            bad += 2;
            broken += 1;
        }
    }
    good > bad || (lenient && whole > 0 && whole >= broken)
}

/// Programs and archives, as `cat` prints them.
fn is_binary(sample: &[u8]) -> bool {
    let odd = sample.iter().filter(|&&byte| {
        byte < 0x20 && !matches!(byte, b'\n' | b'\r' | b'\t' | 0x1b | 0x08 | 0x07 | 0x0c)
    });
    odd.count() * 20 > sample.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(bytes: &[u8], locale: &str, text: &str, label: &str, guessed: bool) {
        let reading = Reading::of([bytes], &Hint::of_locale(locale));
        assert_eq!(reading.decode(bytes), text, "{bytes:x?}");
        assert_eq!(reading.label(), label, "{text}");
        assert_eq!(reading.guessed, guessed, "{text}");
    }

    #[test]
    fn utf_8_is_utf_8() {
        check(b"", "", "", "utf-8", false);
        check(b"plain\n", "zh_CN.GBK", "plain\n", "utf-8", false);
        check("你好\n".as_bytes(), "zh_CN.GBK", "你好\n", "utf-8", false);
        check("你好".as_bytes().split_last().unwrap().1, "", "你\u{fffd}", "utf-8", false);
        // Damaged: a character cut in two, a surrogate, a code point beyond the last.
        check(b"\xe4\xbd\xa0\xe5\xa5\n", "", "你\u{fffd}\n", "utf-8", false);
        let text = "\u{fffd}\u{fffd}\u{fffd} \u{fffd}\u{fffd}\u{fffd}\u{fffd} \u{2028} \0 \x1b\n";
        check(b"\xed\xa0\x80 \xf4\x90\x80\x80 \xe2\x80\xa8 \x00 \x1b\n", "", text, "utf-8", false);
        let binary = b"\x7fELF\x02\x01\x01\0\0\0\0\0\xff\xfe\x80\x90\0\0\0";
        assert_eq!(Reading::of([&binary[..]], &Hint::default()).label(), "utf-8");
    }

    #[test]
    fn other_encodings() {
        let gbk = b"\xb3\xc9\xb9\xa6: \xd2\xd1\xd6\xd5\xd6\xb9 PID 123\n";
        check(gbk, "", "成功: 已终止 PID 123\n", "gbk", false);
        check(b"\xc4\xe3\xba\xc3\n", "zh_CN.GBK", "你好\n", "gbk", false);
        check(b"\xc4\xe3\xba\xc3\n", "zh_CN.UTF-8", "你好\n", "gbk", true);
        check(b"caf\xe9 cr\xe8me\n", "fr_FR.ISO-8859-1", "café crème\n", "windows-1252", false);
        check(b"na\xefve\n", "en_US.UTF-8", "naïve\n", "windows-1252", true);
        let (sjis, ..) = encoding_rs::SHIFT_JIS.encode("ファイルが見つかりません\n");
        check(&sjis, "", "ファイルが見つかりません\n", "shift_jis", false);
        let korean = "오류: 파일을 찾을 수 없습니다\n";
        check(&encoding_rs::EUC_KR.encode(korean).0, "", korean, "euc-kr", false);
        let taiwan = "錯誤：找不到檔案，請檢查路徑是否正確\n";
        check(&encoding_rs::BIG5.encode(taiwan).0, "", taiwan, "big5", false);
        let japan = "エラー：ファイルが見つかりません。確認してください\n";
        check(&encoding_rs::EUC_JP.encode(japan).0, "", japan, "euc-jp", false);
        let russian = "Ошибка: файл не найден\n";
        check(&encoding_rs::KOI8_R.encode(russian).0, "ru_RU.KOI8-R", russian, "koi8-r", false);
        let (gb18030, ..) = encoding_rs::GB18030.encode("错误：找不到文件𠀀\n");
        check(&gb18030, "zh_CN.GB18030", "错误：找不到文件𠀀\n", "gb18030", false);
    }

    #[test]
    fn few_bytes_without_a_locale_are_a_guess() {
        assert!(Reading::of([&b"\xc4\xe3\xba\xc3\n"[..]], &Hint::default()).guessed);
    }

    #[test]
    fn a_stray_byte_leaves_utf_8_alone() {
        check(
            "naïve café \u{fffd} ok\n".as_bytes(),
            "",
            "naïve café \u{fffd} ok\n",
            "utf-8",
            false,
        );
        check(
            b"caf\xc3\xa9 ok \xff\nna\xc3\xafve\n",
            "",
            "café ok \u{fffd}\nnaïve\n",
            "utf-8",
            false,
        );
        check("✓ ok \n".as_bytes(), "", "✓ ok \n", "utf-8", false);
        check(b"\xe2\x9c\x93 ok \x80\n", "zh_CN.GBK", "✓ ok \u{fffd}\n", "utf-8", false);
        let lines = b"\xe2\x9c\x93 ok\ncaf\xe9 is a name that has been here\n";
        check(lines, "", "✓ ok\ncafé is a name that has been here\n", "utf-8+windows-1252", true);
    }

    #[test]
    fn short_text_is_judged_with_the_rest() {
        let (long, ..) = encoding_rs::GBK.encode("错误：找不到文件或目录\n");
        let short = b"\xc4\xe3\xba\xc3\n";
        let reading = Reading::of([&long[..], &short[..]], &Hint::default());
        assert_eq!((reading.decode(short).as_ref(), reading.guessed), ("你好\n", false));
    }

    #[test]
    fn lines_of_two_encodings() {
        let mixed = b"\xe6\x88\x90\xe5\x8a\x9f\n\xb3\xc9\xb9\xa6\n";
        check(mixed, "zh_CN.GBK", "成功\n成功\n", "utf-8+gbk", false);
        check(mixed, "zh_CN.UTF-8", "成功\n成功\n", "utf-8+gbk", true);
    }

    #[test]
    fn utf_16() {
        let units: Vec<u16> = "Volume: é\r\nSecond line\nĊ".encode_utf16().collect();
        let add_crs = |bytes: Vec<u8>| {
            let with_cr = |byte| if byte == b'\n' { vec![b'\r', b'\n'] } else { vec![byte] };
            bytes.into_iter().flat_map(with_cr).collect::<Vec<u8>>()
        };
        let text = "Volume: é\r\nSecond line\nĊ";
        let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
        check(&add_crs(little.clone()), "", text, "utf-16le", false);
        check(&add_crs(big.clone()), "", text, "utf-16be", false);
        let marked = [b"\xff\xfe".to_vec(), little.clone()].concat();
        check(&add_crs(marked.clone()), "", text, "utf-16le", false);
        // Between lines of a shell, at an odd place.
        let within =
            [b"starts\r\n".to_vec(), add_crs(marked), b"\r\0\r\n\0end\r\n".to_vec()].concat();
        check(&within, "", &format!("starts\r\n{text}\r\nend\r\n"), "utf-16le", false);
        let within =
            [b"it\r\n".to_vec(), add_crs(big.clone()), b"\0\r\0\r\nend\r\n".to_vec()].concat();
        check(&within, "", &format!("it\r\n{text}\r\nend\r\n"), "utf-16be", false);
        // A tail begins behind a byte 10, which is half a line end.
        let reading = Reading::of([little.as_slice()], &Hint::default());
        let at = memchr::memchr(b'\n', &little).unwrap() + 1;
        assert_eq!(reading.decode(&little[at..]), "Second line\nĊ");
        assert_eq!(Reading::of([&b"a\0b\0\n"[..]], &Hint::default()).label(), "utf-8");
    }

    #[test]
    fn locales() {
        for (locale, charset) in [
            ("zh_CN.GBK", Some("GBK")),
            ("ja_JP.eucJP", Some("EUC-JP")),
            ("ja_JP.SJIS", Some("Shift_JIS")),
            ("de_DE.ISO8859-15@euro", Some("ISO-8859-15")),
            ("ru_RU.KOI8-R", Some("KOI8-R")),
            ("C.UTF-8", None),
            ("en_US.utf8", None),
            ("C", None),
            ("", None),
            ("x_Ü.?", None),
        ] {
            assert_eq!(Hint::of_locale(locale).charset.map(Encoding::name), charset, "{locale}");
        }
    }

    #[test]
    fn environments() {
        let env = |pairs: &[(&str, &str)]| {
            let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
            Hint::of_environment(&pairs.iter().map(own).collect::<Vec<_>>())
        };
        let gbk = Hint::of_locale("zh_CN.GBK");
        assert_eq!(env(&[("LANG", "zh_CN.GBK"), ("LC_ALL", "")]), gbk);
        assert_eq!(env(&[("LC_CTYPE", "zh_CN.GBK"), ("LANG", "C")]), gbk);
        assert_eq!(env(&[("LC_ALL", "C"), ("LANG", "zh_CN.GBK")]), Hint::default());
        assert_eq!(env(&[]), Hint::default());
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300), locale in "[a-z]{2}_[A-Z]{2}(\\.[A-Za-z0-9-]{1,8})?") {
            decode(&bytes, &Hint::of_locale(&locale));
        }

        #[test]
        fn valid_text_is_itself(text in "\\PC{0,80}") {
            prop_assert_eq!(decode(text.as_bytes(), &Hint::of_locale("zh_CN.GBK")), text.as_str());
        }
    }
}
