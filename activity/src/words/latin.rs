//! Locales that write in Latin letters.

use super::locale::{Locale, NameOrder};

pub(crate) static ENGLISH: Locale = Locale {
    lang: "en",
    time_zone: "Europe/London",
    phone: "+44 7700 900###",
    first: &[
        ("Martha", "martha"),
        ("Tobiah", "tobiah"),
        ("Siân", "sian"),
        ("O’Shea", "oshea"),
        ("Zoë", "zoe"),
        ("Kwame", "kwame"),
        ("Priya", "priya"),
        ("Jean-Luc", "jean-luc"),
    ],
    last: &[
        ("Okonjo", "okonjo"),
        ("Finch", "finch"),
        ("O’Brien", "obrien"),
        ("Smith-Hughes", "smith-hughes"),
        ("van der Berg", "vanderberg"),
        ("Brontë", "bronte"),
        ("Patel", "patel"),
        ("Mac Lochlainn", "maclochlainn"),
    ],
    order: NameOrder::FirstLast,
    sentences: &[
        "We opened a second shop in spring and our books are a shoe box again.",
        "Could somebody call me back before Friday?",
        "My accountant says \"it depends\", which is what I pay her for.",
        "There are three of us, two vans and one dog.",
        "The letter says 14 days; it came on day 12.",
        "I would rather not use the phone, if that is all right.",
    ],
};

pub(crate) static FRENCH: Locale = Locale {
    lang: "fr",
    time_zone: "Europe/Paris",
    phone: "+33 1 99 00 ## ##",
    first: &[
        ("Édouard", "edouard"),
        ("Zoé", "zoe"),
        ("Loïc", "loic"),
        ("Anaïs", "anais"),
        ("Maëlys", "maelys"),
        ("François", "francois"),
    ],
    last: &[
        ("Châtelain", "chatelain"),
        ("Lefèvre", "lefevre"),
        ("Kerguélen", "kerguelen"),
        ("d’Œuvre", "doeuvre"),
        ("Le Goff", "legoff"),
        ("Muñoz-Garçon", "munoz-garcon"),
    ],
    order: NameOrder::FirstLast,
    sentences: &[
        "Le propriétaire refuse de rendre le dépôt de garantie.",
        "J’ai reçu un courrier recommandé hier ; l’échéance est proche.",
        "Nous sommes quatre associés, dont un « dormant ».",
        "Le devis était de 5 120,75 €, la facture de 8 400 €.",
        "Pouvez-vous m’appeler après 18 h ?",
    ],
};

pub(crate) static GERMAN: Locale = Locale {
    lang: "de",
    time_zone: "Europe/Berlin",
    phone: "+49 30 23125 ###",
    first: &[
        ("Jürgen", "juergen"),
        ("Käthe", "kaethe"),
        ("Sören", "soeren"),
        ("Annegret", "annegret"),
        ("Björn", "bjoern"),
    ],
    last: &[
        ("Weiß", "weiss"),
        ("Müller-Lüdenscheidt", "mueller-luedenscheidt"),
        ("Größer", "groesser"),
        ("von der Straße", "vonderstrasse"),
        ("Yılmaz", "yilmaz"),
    ],
    order: NameOrder::FirstLast,
    sentences: &[
        "Der Bescheid kam gestern, die Frist läuft schon.",
        "Wir suchen jemanden für die laufende Buchführung, gern digital.",
        "Er sagte wörtlich: „Das zahlt die Versicherung.“",
        "Die Straße wird gebaut, der Umsatz fehlt – größtenteils.",
        "Bitte nur per E-Mail.",
    ],
};

pub(crate) static SPANISH: Locale = Locale {
    lang: "es",
    time_zone: "Europe/Madrid",
    phone: "+34 900 ### ###",
    first: &[
        ("Íñigo", "inigo"),
        ("Begoña", "begona"),
        ("Ximena", "ximena"),
        ("José Ángel", "joseangel"),
        ("María del Mar", "mariadelmar"),
    ],
    last: &[
        ("Etxeberria", "etxeberria"),
        ("Ibáñez", "ibanez"),
        ("Lagarreta Ocampo", "lagarreta"),
        ("Núñez", "nunez"),
        ("Güell", "guell"),
    ],
    order: NameOrder::FirstLast,
    sentences: &[
        "¿Una sociedad francesa con sucursal en España, o al revés?",
        "Somos cinco hermanos y sólo nos hablamos tres.",
        "El contrato dice «según mercado» y nada más.",
        "Necesito la respuesta antes del día 20.",
        "¡Muchas gracias por todo!",
    ],
};

pub(crate) static POLISH: Locale = Locale {
    lang: "pl",
    time_zone: "Europe/Warsaw",
    phone: "+48 22 555 ## ##",
    first: &[
        ("Łucja", "lucja"),
        ("Żaneta", "zaneta"),
        ("Bożydar", "bozydar"),
        ("Święto", "swieto"),
        ("Jiří", "jiri"),
    ],
    last: &[
        ("Wąsowicz", "wasowicz"),
        ("Dvořáková", "dvorakova"),
        ("Kuśmierczyk", "kusmierczyk"),
        ("Źdźbło", "zdzblo"),
        ("Ştefănescu", "stefanescu"),
    ],
    order: NameOrder::FirstLast,
    sentences: &[
        "Zażółć gęślą jaźń – to tylko test klawiatury.",
        "Prowadzę małą firmę i potrzebuję księgowej.",
        "Termin minął wczoraj, co teraz?",
    ],
};

pub(crate) static VIETNAMESE: Locale = Locale {
    lang: "vi",
    time_zone: "Asia/Ho_Chi_Minh",
    phone: "+1 202 555 01##",
    first: &[
        ("Thị Hồng", "hong"),
        ("Đức", "duc"),
        ("Quỳnh", "quynh"),
        ("Tuấn Kiệt", "kiet"),
        ("Ánh", "anh"),
    ],
    last: &[
        ("Nguyễn", "nguyen"),
        ("Trần", "tran"),
        ("Đặng", "dang"),
        ("Phạm", "pham"),
        ("Võ", "vo"),
    ],
    order: NameOrder::FirstLast,
    sentences: &[
        "Chúng tôi muốn mở một quán cà phê thứ hai.",
        "Xin gọi lại cho tôi sau 17 giờ.",
        "Hợp đồng bằng tiếng Pháp, tôi không hiểu hết.",
    ],
};
