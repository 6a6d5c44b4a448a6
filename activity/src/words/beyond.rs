//! Locales that write in other scripts.

use super::locale::{Locale, NameOrder};

pub(crate) static RUSSIAN: Locale = Locale {
    lang: "ru",
    time_zone: "Europe/Riga",
    phone: "+1 202 555 01##",
    first: &[
        ("Алёна", "alyona"),
        ("Дмитрий", "dmitry"),
        ("Зинаида", "zinaida"),
        ("Їжак", "yizhak"),
        ("Ґанна", "ganna"),
    ],
    last: &[
        ("Щербакова", "shcherbakova"),
        ("Ольховский", "olkhovsky"),
        ("Шевченко", "shevchenko"),
        ("Ёлкин", "yolkin"),
        ("Đorđević-Ђорђевић", "djordjevic"),
    ],
    order: NameOrder::FirstLast,
    sentences: &[
        "Мы открыли вторую мастерскую, и теперь нужен бухгалтер.",
        "Он сказал: «Договор подпишем завтра» — и пропал.",
        "Срок — до 15 декабря. Успеем?",
        "Перезвоните, пожалуйста, после обеда ☕",
    ],
};

pub(crate) static GREEK: Locale = Locale {
    lang: "el",
    time_zone: "Europe/Athens",
    phone: "+30 210 555 ####",
    first: &[
        ("Ελευθερία", "eleftheria"),
        ("Θεόδωρος", "theodoros"),
        ("Ιφιγένεια", "ifigeneia"),
        ("Άγγελος", "angelos"),
    ],
    last: &[
        ("Παπαδοπούλου", "papadopoulou"),
        ("Οικονόμου", "oikonomou"),
        ("Ξενάκης", "xenakis"),
        ("Ψαρρός", "psarros"),
    ],
    order: NameOrder::FirstLast,
    sentences: &[
        "Έχουμε ένα μικρό ξενοδοχείο στη Νάξο.",
        "Ποια είναι η προθεσμία; Δεν είμαι σίγουρος.",
        "Το συμβόλαιο λέει «κατά περίπτωση».",
    ],
};

pub(crate) static CHINESE: Locale = Locale {
    lang: "zh",
    time_zone: "Asia/Shanghai",
    phone: "+1 202 555 01##",
    first: &[
        ("美玲", "meiling"),
        ("志強", "zhiqiang"),
        ("雨桐", "yutong"),
        ("浩然", "haoran"),
        ("𠮷人", "jiren"),
    ],
    last: &[("林", "lin"), ("欧阳", "ouyang"), ("陳", "chen"), ("王", "wang"), ("䶮", "yan")],
    order: NameOrder::LastFirst,
    sentences: &[
        "我们从杭州进口丝线,想了解进口增值税。",
        "请在星期五之前给我回电话。",
        "合同上写着“视情况而定”,没有具体金额。",
        "公司有十二名员工,去年营业额约二百三十万。",
    ],
};

pub(crate) static ARABIC: Locale = Locale {
    lang: "ar",
    time_zone: "Africa/Casablanca",
    phone: "+1 202 555 01##",
    first: &[
        ("فاطمة الزهراء", "fatima"),
        ("يوسف", "youssef"),
        ("نور", "nour"),
        ("عبد الرحمن", "abderrahmane"),
    ],
    last: &[
        ("بن علي", "benali"),
        ("الحسيني", "alhusseini"),
        ("المرّاكشي", "elmarrakchi"),
        ("خوري", "khoury"),
    ],
    order: NameOrder::FirstLast,
    sentences: &[
        "نريد فتح فرع ثانٍ في مرسيليا.",
        "هل يمكنكم الاتصال بي بعد الساعة ٥ مساءً؟",
        "قال لي: «العقد جاهز» ثم لم يرسل شيئًا.",
    ],
};

pub(crate) static JAPANESE: Locale = Locale {
    lang: "ja",
    time_zone: "Asia/Tokyo",
    phone: "+1 202 555 01##",
    first: &[("さくら", "sakura"), ("健太", "kenta"), ("ユウキ", "yuki"), ("葵", "aoi")],
    last: &[("髙橋", "takahashi"), ("渡邉", "watanabe"), ("佐藤", "sato"), ("𠮷田", "yoshida")],
    order: NameOrder::LastFirst,
    sentences: &[
        "来年の四月に支店を開く予定です。",
        "契約書は「別途協議」とだけ書いてあります。",
        "お電話は午後にお願いします🙇",
    ],
};
