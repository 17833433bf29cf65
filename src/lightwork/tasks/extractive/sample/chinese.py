"""The Chinese part of the sample: words, sentences and questions."""

from __future__ import annotations

from lightwork.tasks.extractive.sample.draw import Draw
from lightwork.tasks.extractive.sample.names import Lexicon, Register, characters
from lightwork.tasks.extractive.sample.story import Questions, Theme

FAMILIES = "王李张刘陈杨赵周吴徐孙马朱胡郭何罗宋郑谢"
NAMES: Lexicon = {
    "given": characters("安春丹芳飞光海慧佳建静娟君兰乐丽玲梅宁平秋荣文武祥晓欣燕英勇云珍志"),
    "town": characters(
        "白北长大东丰高古桂红虎花黄金九龙南青清泉三沙石双松桃西溪仙香银玉月竹", "镇村湾"
    ),
    "river": characters(
        "白北长大东丰高古桂红虎花黄金九龙南青清泉三沙石双松桃西溪仙香银玉月竹", "河江"
    ),
}
JOBS = "木匠 铁匠 裁缝 厨师 老师 医生 画家 渔夫 花匠 石匠 船长 护士 司机 农民 邮差 警察".split()
INSTRUMENTS = "二胡 古琴 古筝 琵琶 笛子 扬琴 唢呐 钢琴 吉他 小提琴 手风琴 口琴".split()
NUMBERS = "两三四五六七八九"
ANIMALS = (
    "只山羊 只白鹅 只黑猫 只鸽子 只兔子 只鸭子 只乌龟 只母鸡 匹小马 头毛驴 条小狗 头水牛".split()
)
GOODS = "绿茶 米酒 瓷器 丝绸 竹篮 草帽 蜂蜜 豆腐 年画 剪纸 风筝 灯笼 酱油 木梳 油伞 毛笔".split()
BIRTH_YEARS = [f"{year}年" for year in range(1931, 2005)]
FOUNDING_YEARS = [f"{year}年" for year in range(1200, 1890, 10)]

ABOUT_PEOPLE = Questions(
    asked={
        "job": ("{name}的职业是什么？", "{name}做什么工作？"),
        "town": ("{name}住在哪里？", "{name}的家在哪里？"),
        "pet": ("{name}养了什么动物？", "{name}家里养着什么？"),
        "instrument": ("{name}会演奏什么乐器？", "{name}喜欢什么乐器？"),
        "year": ("{name}是哪一年出生的？", "{name}什么时候出生？"),
        "home": ("{name}出生在哪里？", "{name}来自什么地方？"),
    },
    sought={
        "job": ("谁是{job}？",),
        "town": ("谁住在{town}？",),
        "pet": ("谁养了{pet}？",),
        "instrument": ("谁会演奏{instrument}？",),
        "year": ("谁出生于{year}？",),
        "home": ("谁来自{home}？",),
    },
)
ABOUT_PLACES = Questions(
    asked={
        "river": ("哪条河流过{name}？", "{name}在哪条河边上？"),
        "goods": ("{name}出产什么？", "{name}的什么很有名？"),
        "year": ("{name}建于哪一年？",),
        "mayor": ("{name}的负责人是谁？", "谁是{name}的负责人？"),
    },
    sought={
        "river": ("{river}流过哪里？", "什么地方在{river}边上？"),
        "goods": ("哪里出产{goods}？", "哪里的{goods}很有名？"),
        "year": ("什么地方建于{year}？",),
        "mayor": ("{mayor}是哪里的负责人？",),
    },
)
PEOPLE = [
    Theme(
        openings=("周末，{scene}很热闹。", "{scene}下雨了。", "去{scene}的船上坐满了人。"),
        tales=(
            "{name}是{town}的{job}。",
            "{name}住在{town}，是一名{job}。",
            "在{town}，{name}是有名的{job}。",
            "{job}{name}住在{town}。",
        ),
        questions=ABOUT_PEOPLE,
        blank="",
    ),
    Theme(
        openings=("去{scene}的夜车晚点了。", "{scene}的晚上很安静。", "{scene}的集市上有音乐。"),
        tales=(
            "{name}会演奏{instrument}，养了{pet}。",
            "{name}养了{pet}，喜欢演奏{instrument}。",
            "{name}家里有{pet}，晚上演奏{instrument}。",
        ),
        questions=ABOUT_PEOPLE,
        blank="",
    ),
    Theme(
        openings=("{scene}的学校在找老同学。", "这是一张{scene}的老照片。"),
        tales=(
            "{name}{year}出生在{home}。",
            "{year}，{name}在{home}出生。",
            "{name}来自{home}，是{year}出生的。",
        ),
        questions=ABOUT_PEOPLE,
        blank="",
    ),
]
PLACES = [
    Theme(
        openings=("从{scene}出发的邮车常常停下来。", "今天{scene}有集市。"),
        tales=(
            "{name}在{river}边上，出产{goods}。",
            "{river}流过{name}，那里的{goods}很有名。",
            "{name}的{goods}顺着{river}运到远方。",
        ),
        questions=ABOUT_PLACES,
        blank="",
    ),
    Theme(
        openings=("{scene}一带的村镇都很古老。", "{scene}挂着一张地图。"),
        tales=(
            "{name}建于{year}，负责人是{mayor}。",
            "{mayor}是{name}的负责人，那里建于{year}。",
            "建于{year}的{name}请{mayor}当负责人。",
        ),
        questions=ABOUT_PLACES,
        blank="",
    ),
]


def people(draw: Draw, names: Register, count: int) -> dict[str, list[str]]:
    """Hole -> what stands in it for each of ``count`` people."""
    pets = zip(draw.some(NUMBERS, count), draw.some(ANIMALS, count), strict=True)
    return {
        "name": _full_names(draw, names, count),
        "town": names.some("town", count),
        "home": names.some("town", count),
        "job": draw.some(JOBS, count),
        "pet": ["".join(pair) for pair in pets],
        "instrument": draw.some(INSTRUMENTS, count),
        "year": draw.some(BIRTH_YEARS, count),
    }


def places(draw: Draw, names: Register, count: int) -> dict[str, list[str]]:
    """Hole -> what stands in it for each of ``count`` places."""
    return {
        "name": names.some("town", count),
        "river": names.some("river", count),
        "mayor": _full_names(draw, names, count),
        "goods": draw.some(GOODS, count),
        "year": draw.some(FOUNDING_YEARS, count),
    }


def _full_names(draw: Draw, names: Register, count: int) -> list[str]:
    families = draw.some(FAMILIES, count)
    return [family + names.one("given") for family in families]
