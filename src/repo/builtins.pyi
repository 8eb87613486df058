class object:
    __doc__: str
    __dict__: dict
    __module__: str
    def __init__(self) -> None: ...
