//! From bytes to text, whatever encoding a program wrote in.
//!
//! UTF-8 is tried first, line by line, since programs of different minds share a terminal. Only
//! lines that are not UTF-8 are looked at more closely: the session's locale has the first word,
//! then a detector over all of them together.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

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
    /// Everything is UTF-16.
    Utf16(&'static Encoding),
    /// Lines that are not UTF-8 are in this encoding; `alone` when no others are beyond ASCII.
    Other { encoding: &'static Encoding, alone: bool },
}

impl Reading {
    /// Looks at all bytes that are to be read alike.
    pub fn of<'a>(pieces: impl IntoIterator<Item = &'a [u8]> + Clone, hint: &Hint) -> Self {
        let sure = |lines| Self { lines, guessed: false };
        if pieces.clone().into_iter().all(|piece| utf16_of(piece).is_none() && valid(piece)) {
            return sure(Lines::Utf8);
        }
        if let Some(encoding) = pieces.clone().into_iter().find_map(utf16_of) {
            return sure(Lines::Utf16(encoding));
        }
        let mut sample = Vec::new();
        let mut alone = true;
        for line in pieces.into_iter().flat_map(lines) {
            if valid(line) || is_damaged_utf8(line) {
                alone &= line.is_ascii();
            } else if sample.len() < SAMPLE {
                sample.extend_from_slice(&line[..line.len().min(SAMPLE)]);
            }
        }
        if sample.is_empty() || is_binary(&sample) {
            return sure(Lines::Utf8);
        }
        let beyond_ascii = sample.iter().filter(|byte| !byte.is_ascii()).count();
        match hint.charset.filter(|charset| reads(charset, &sample)) {
            Some(encoding) => sure(Lines::Other { encoding, alone }),
            None => {
                let encoding = detect(&sample, hint);
                Self { lines: Lines::Other { encoding, alone }, guessed: beyond_ascii < SURE }
            }
        }
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
            Lines::Utf16(encoding) => Cow::Owned(decode_utf16(encoding, bytes)),
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

/// Lines with their ends.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|&byte| byte == b'\n')
}

fn decode_lines(encoding: &'static Encoding, bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 3 / 2);
    for line in lines(bytes) {
        match std::str::from_utf8(line) {
            Ok(line) => text.push_str(line),
            Err(_) if is_damaged_utf8(line) => text.push_str(&String::from_utf8_lossy(line)),
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
/// is beyond ASCII has its form. In no other encoding is that likely.
fn is_damaged_utf8(line: &[u8]) -> bool {
    let mut good = 0;
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
        } else {
            at += run;
            bad += 2;
        }
    }
    good > bad
}

/// Programs and archives, as `cat` prints them.
fn is_binary(sample: &[u8]) -> bool {
    let odd = sample.iter().filter(|&&byte| {
        byte < 0x20 && !matches!(byte, b'\n' | b'\r' | b'\t' | 0x1b | 0x08 | 0x07 | 0x0c)
    });
    odd.count() * 20 > sample.len()
}

/// UTF-16, by its mark or by the zero bytes of its ASCII part.
fn utf16_of(bytes: &[u8]) -> Option<&'static Encoding> {
    match bytes {
        [0xff, 0xfe, ..] => return Some(UTF_16LE),
        [0xfe, 0xff, ..] => return Some(UTF_16BE),
        _ => {}
    }
    let sample = &bytes[..bytes.len().min(4096)];
    memchr::memchr(0, sample)?;
    let sample = without_added_crs(sample);
    let zeros = |odd: usize| sample.iter().skip(odd).step_by(2).filter(|&&byte| byte == 0).count();
    let (even, odd) = (zeros(0), zeros(1));
    let enough = |zeros: usize| zeros >= 4 && zeros * 10 >= sample.len() * 3;
    match () {
        () if enough(odd) && even * 10 <= odd => Some(UTF_16LE),
        () if enough(even) && odd * 10 <= even => Some(UTF_16BE),
        () => None,
    }
}

/// A terminal puts a CR before each byte 10, which tears UTF-16 apart.
fn without_added_crs(bytes: &[u8]) -> Vec<u8> {
    let mut rest = Vec::with_capacity(bytes.len());
    let mut from = 0;
    for lf in memchr::memchr_iter(b'\n', bytes) {
        let end = if bytes[from..lf].ends_with(b"\r") { lf - 1 } else { lf };
        rest.extend_from_slice(&bytes[from..end]);
        from = lf;
    }
    rest.extend_from_slice(&bytes[from..]);
    rest
}

fn decode_utf16(encoding: &'static Encoding, bytes: &[u8]) -> String {
    encoding.decode_with_bom_removal(&without_added_crs(bytes)).0.into_owned()
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
        let (gb18030, ..) = encoding_rs::GB18030.encode("错误：找不到文件𠀀\n");
        check(&gb18030, "zh_CN.GB18030", "错误：找不到文件𠀀\n", "gb18030", false);
    }

    #[test]
    fn few_bytes_without_a_locale_are_a_guess() {
        assert!(Reading::of([&b"\xc4\xe3\xba\xc3\n"[..]], &Hint::default()).guessed);
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
        check(&add_crs(big), "", text, "utf-16be", false);
        let marked = [b"\xff\xfe".to_vec(), little].concat();
        check(&add_crs(marked), "", text, "utf-16le", false);
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
