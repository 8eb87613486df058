"""ToolGen's SKIPPED words: before these the tool is not asked, and its answers are not counted."""

PROPERTIES = """
__annotations__ __class__ __delattr__ __dict__ __dir__ __doc__ __eq__ __format__ __getattribute__
__getstate__ __hash__ __init__ __init_subclass__ __module__ __ne__ __new__ __reduce__ __reduce_ex__
__repr__ __setattr__ __setstate__ __sizeof__ __slots__ __str__
"""
FUNCTIONS = """
abs all any ascii bin bool bytearray bytes callable chr classmethod compile complex delattr dict dir
divmod enumerate eval exec filter float format frozenset getattr globals hasattr hash help hex id input
int isinstance issubclass iter len list locals map max memoryview min next object oct open ord pow print
property range repr reversed round set setattr slice sorted staticmethod str sum super tuple type vars zip
"""
EXCEPTIONS = """
AssertionError ArithmeticError AttributeError EOFError FloatingPointError GeneratorExit ImportError
IndexError KeyError KeyboardInterrupt MemoryError NameError NotImplementedError OSError OverflowError
ReferenceError RuntimeError StopIteration SyntaxError IndentationError TabError SystemError SystemExit
TypeError UnboundLocalError UnicodeError UnicodeEncodeError UnicodeDecodeError UnicodeTranslateError
ValueError ZeroDivisionError
"""
KEYWORDS = """
False await else import pass None break except in raise True class finally is return and continue for
lambda try as def from nonlocal while assert del global not with async elif if or yield self
"""
OPERATORS = "( ) [ ] { } ; , : . + - * / // % ** = < > <= >= == !="

SKIPPED = frozenset(" ".join([PROPERTIES, FUNCTIONS, EXCEPTIONS, KEYWORDS, OPERATORS]).split())
