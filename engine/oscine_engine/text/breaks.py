"""Where a long run of Chinese without punctuation may be cut: between words, told by the characters on either side.

Particles end a word and pronouns or prepositions begin one, but for the words that are listed here. No dictionary is
needed: a run long enough to be cut has such a place every few characters.
"""

_ENDS = frozenset("的了着过吗呢吧啊们地得")
_NOT_ENDS = frozenset(
    "的确 的士 的话 了解 了不 了得 了结 了断 着急 着想 着重 着手 着名 着装 着火 着陆 着迷 着凉 着落 着眼 过程 "
    "过去 过来 过敏 过年 过分 过度 过期 过滤 过渡 过于 过后 过节 过奖 过错 地方 地点 地球 地区 地位 地下 地图 "
    "地上 地铁 地面 地板 地址 地震 地理 地形 地带 地道 地势 地毯 地产 得到 得出 得分 得知 得意 得罪 得以 得奖 "
    "得体 吧台 了吧 了吗 了呢 了啊 的吗 的呢 的吧 着呢 着吧 过了 过吗 过的 们的 们都 得了 得很 得多 得起 得住 "
    "得上 得下".split()
)
_BEGINS = frozenset("但并或把被让从向与及我你您他她它这那在对因所如虽")
_NOT_BEGINS = frozenset(
    "不但 非但 合并 一并 吞并 兼并 一把 门把 火把 拖把 棉被 转让 忍让 谦让 服从 自从 听从 顺从 跟从 方向 倾向 "
    "面向 走向 导向 一向 趋向 参与 给与 付与 以及 涉及 普及 来及 不及 顾及 提及 波及 危及 埃及 自我 其他 吉他 "
    "刹那 现在 正在 存在 实在 所在 内在 外在 潜在 好在 不在 就在 是在 都在 还在 也在 反对 绝对 相对 面对 针对 "
    "核对 应对 不对 校对 一对 原因 起因 基因 是因 厕所 场所 住所 研所 派所 诊所 无所 有所 假如 例如 比如 譬如 "
    "正如 不如 犹如 谦虚 和我 跟我 对我 给我 让我 把我 被我 向我 和你 跟你 对你 给你 让你 把你 向你 和您 给您 "
    "为您 让您 帮您 和他 跟他 对他 给他 让他 把他 把这 在这 从这 对这 到这 在那 从那 对那 到那".split()
)


def may_part(before: str, after: str) -> bool:
    """True where two Chinese characters surely belong to two words, and the second could begin a phrase."""
    pair = before + after
    return (before in _ENDS and pair not in _NOT_ENDS) or (after in _BEGINS and pair not in _NOT_BEGINS)
