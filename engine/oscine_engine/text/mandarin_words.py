"""Word lists that mend the reading data: neutral tones, phrases and lone characters."""

# Everyday words whose last syllable has no tone.
NEUTRAL_ENDINGS = """
谢谢 朋友 东西 时候 明白 先生 学生 喜欢 知道 妈妈 爸爸 哥哥 姐姐 弟弟 妹妹 奶奶 爷爷 叔叔 漂亮 清楚 意思 地方 认识
关系 告诉 晚上 早上 衣服 休息 消息 事情 客气 麻烦 便宜 舒服 聪明 热闹 打算 商量 收拾 耽误 照顾 招呼 帮忙 力气 脾气
运气 福气 眼睛 耳朵 头发 嘴巴 鼻子 脑袋 肩膀 胳膊 指头 骨头 石头 木头 馒头 里头 外头 太阳 月亮 星星 云彩 苍蝇 蚂蚁
狐狸 骆驼 萝卜 葡萄 豆腐 点心 粮食 钥匙 行李 窗户 玻璃 屋子 葫芦 灯笼 扇子 胡同 衙门 亲戚 丈夫 媳妇 姑娘 老婆 大夫
护士 师傅 裁缝 和尚 大方 老实 厉害 结实 干净 暖和 凉快 新鲜 踏实 糊涂 马虎 利索 痛快 别扭 名字 故事 笑话
学问 道理 主意 精神 功夫 工夫 本事 规矩 秘密 生意 买卖 日子 月份 年纪 记得 觉得 懂得 值得 使得 认得 晓得 显得 舍得
看看 试试 听听 想想 说说 走走 等等 问问 谈谈 尝尝 聊聊 找找 他们 我们 你们 她们 它们 咱们 人们 孩子们 部分 动静 答应
吩咐 咳嗽 哆嗦 折腾 溜达 打听 打扮 打量 打发 琢磨 惦记 疙瘩 嘱咐 应酬 拾掇 喇叭 琵琶 眉毛 下巴 尾巴 哪里 这里 那里
家里 心里 夜里 屋里 手里 城里 水里 路上 桌上 床上 身上 地上 天上 街上 墙上 车上 书上 网上 世上
"""

OWN_PHRASES = {
    phrase: tuple(readings.split())
    for phrase, readings in {
        "行行": "háng háng",
        "银行": "yín háng",
        "不客气": "bù kè qi",
        "没关系": "méi guān xi",
        "多少": "duō shao",
        "这个": "zhè ge",
        "那个": "nà ge",
        "一个": "yī gè",
        "什么": "shén me",
        "怎么": "zěn me",
        "为什么": "wèi shén me",
        "得了": "dé le",
        "好好": "hǎo hǎo",
        "人参加": "rén cān jiā",
        "拨打": "bō dǎ",
        "去过": "qù guò",
        "处处": "chù chù",
        "得到": "dé dào",
        "显示着": "xiǎn shì zhe",
        "得出": "dé chū",
        "答应": "dā ying",
        "还有": "hái yǒu",
        "还是": "hái shì",
        "都会": "dōu huì",
        "都要": "dōu yào",
        "长得": "zhǎng de",
        "好的": "hǎo de",
    }.items()
}
"""Phrases with readings that the data lacks, or that keep a wrong longer match away."""

# Lone characters for which the data lists a rarer reading first.
USUAL = {
    "长": "cháng",
    "谁": "shéi",
    "教": "jiāo",
    "弹": "tán",
    "脏": "zāng",
    "舍": "shě",
    "似": "sì",
    "划": "huà",
    "切": "qiē",
    "铺": "pū",
    "哦": "ò",
    "卷": "juǎn",
    "曲": "qǔ",
    "嗯": "ēn",
    "哟": "yo",
    "呢": "ne",
    "吗": "ma",
}
