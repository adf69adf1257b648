def plan() -> str:
    return ""
