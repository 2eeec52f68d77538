"""Construction of a function's expressions, each only once, and of the statements around them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeGuard

from apache_beam.metrics.execution import MetricUpdater

from sparkbeam.columns import list_kernels, number_kernels, text_kernels
from sparkbeam.columns.expressions import (
    FIRST_MADE,
    UNKNOWN,
    Apply,
    Branch,
    ClassOf,
    Collected,
    ColumnRef,
    Const,
    Contents,
    Document,
    DurationParts,
    Either,
    Evaluate,
    Expression,
    Fail,
    Generated,
    IntervalParts,
    Item,
    Listed,
    Loop,
    Made,
    Make,
    Nothing,
    OfUnion,
    Pick,
    Repeat,
    Select,
    Stamped,
    Statement,
    TimestampParts,
    Update,
)
from sparkbeam.columns.plain_data import shape_of_value
from sparkbeam.columns.python_types import (
    BOOL,
    BYTES,
    NONE,
    NUMBERS,
    STR,
    TIMESTAMP,
    Constants,
    Lists,
    Mixed,
    Opaque,
    RecordShape,
    Scalar,
    Shape,
    Table,
    Union,
    either,
    unified,
)
from sparkbeam.columns.reasons import FallBack, NotCompiled
from sparkbeam.columns.vectors import Value, Vector

_MOST_WAYS = 2000


class UnknownDocument(Exception):
    """A function parses JSON whose type only the data tell."""

    def __init__(self, text: Expression) -> None:
        super().__init__("it parses JSON")
        self.text = text


class Graph:
    """The expressions and statements of one compilation.

    Args:
        documents: the types of the JSON that the function parses, as far as they are known.

    Attributes:
        documents: the JSON that it parses.
        whole: argument numbers of JSON of which it uses more than items of known keys.
        missing: keys that no object of JSON may have, with the path of the object, by argument
            number.
        around: the innermost loop at this point of the function.
        updates: the number of its updates of metrics so far.
    """

    def __init__(self, documents: Sequence[RecordShape] = ()) -> None:
        self._known: dict[Any, Expression] = {}
        self._statements: list[Statement] = []
        self._ways = 0
        self._loops = 0
        self._shapes = documents
        self.documents: list[Document] = []
        self._parsed: dict[Expression, Document] = {}
        self.whole: set[int] = set()
        self.missing: dict[int, set[tuple[tuple[int, ...], str]]] = {}
        self.around: Loop | None = None
        self.updates = 0
        self._started: set[Generated] = set()

    def goes_both_ways(self) -> None:
        """Count values that depend on a condition, as each `if` may double their number.

        Raises:
            NotCompiled: there are too many.
        """
        self._ways += 1
        if self._ways > _MOST_WAYS:
            raise NotCompiled("it has too many paths")

    def _once(self, key: Any, make: Callable[[], Expression]) -> Any:
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def const(self, value: Any) -> Const:
        """Return a constant.

        Raises:
            NotCompiled: the value is not plain, immutable data.
        """
        shape = shape_of_value(value)
        # 1, 1.0 and True are equal, and so are 0.0 and -0.0; of NaNs each object is another one.
        try:
            written = repr(value)
        except ValueError:  # Python does not write ints of thousands of digits.
            raise NotCompiled("an int exceeds 64 bits") from None
        key = (Const, shape, written, id(value) if "nan" in written else None)
        return self._once(key, lambda: Const(shape, value))

    def folded(self, function: Callable[..., Any], *constants: Any) -> Const:
        """Return the result of a function of constants, computed by Python.

        Raises:
            NotCompiled: the function raises, or its result is not plain, immutable data.
        """
        try:
            return self.const(function(*constants))
        except NotCompiled:
            raise
        except Exception as error:
            raise NotCompiled(f"it raises {type(error).__name__}") from None

    def column(self, shape: Shape, argument: int, path: tuple[int, ...] = ()) -> Expression:
        """Return an argument or a field of it."""
        if shape == NONE:
            return self.const(None)
        return self._once((ColumnRef, argument, path), lambda: ColumnRef(shape, argument, path))

    @contextmanager
    def iteration(self, lists: Expression) -> Iterator[tuple[Loop, Expression]]:
        """Enter an iteration of a loop over lists, which must not be None; yield its item."""
        assert isinstance(lists.shape, Lists)
        loop = Loop(self._next_argument(), lists)
        self._loops += 1
        around, self.around = self.around, loop
        with self.collected() as statements:
            yield loop, self.column(lists.shape.item, loop.argument)
        self.around = around
        self._statements.append(Repeat(loop, tuple(statements)))

    def pick(self, lists: Expression, places: Expression) -> Expression:
        """Return the item of each list at its place; None where the place is None."""
        shape = lists.shape
        assert isinstance(shape, Lists)
        if isinstance(shape.item, Scalar | Opaque) and shape.item != NONE:
            return self.apply(list_kernels.items, shape.item, lists, places)
        if isinstance(shape.item, Union) or shape.item == NONE:
            raise NotCompiled(f"it takes an item of {shape}")
        pick = Pick(self._next_argument(), lists, places)
        self._loops += 1
        self._statements.append(Make(pick))
        return self.column(shape.item, pick.argument)

    def collection(self, shape: Lists, items: tuple[Item, ...]) -> Expression:
        """Return a list of the values that loops emit."""
        node = Collected(shape, items)
        self._statements.append(Evaluate(node))
        return node

    def start(self, generator: Generated) -> tuple[Item, ...]:
        """Run a generator at this point, and return what it yields.

        Raises:
            NotCompiled: it may have run before.
        """
        if generator in self._started or generator.around is not self.around:
            raise NotCompiled("it uses a generator twice")
        self._started.add(generator)
        self._statements += generator.statements
        return generator.items

    def _next_argument(self) -> int:
        return FIRST_MADE - self._loops - len(self.documents)

    def document(self, text: Expression) -> Expression:
        """Return the objects that JSON stands for.

        Raises:
            UnknownDocument: their type is not known yet.
            NotCompiled: the texts depend on a loop, or on other JSON.
        """
        if any(ref.argument < UNKNOWN for ref in columns_in(text)):
            raise NotCompiled("it parses JSON in a loop, or JSON within JSON")
        document = self._parsed.get(text)
        if document is None:
            number = len(self.documents)
            if number == len(self._shapes):
                raise UnknownDocument(text)
            document = Document(self._next_argument(), text, self._shapes[number])
            self._parsed[text] = document
            self.documents.append(document)
            self._statements.append(Make(document))
        return self.column(document.shape, document.argument)

    @property
    def has_loops(self) -> bool:
        """Return whether the function iterates over lists."""
        return bool(self._loops)

    def unknown(self, value: Any, name: str) -> Expression:
        """Return a value of which only the type is known.

        Raises:
            NotCompiled: it is not a number, a bool or text.
        """
        if type(value) not in (int, float, bool, str, bytes):
            raise NotCompiled(f"{name} may differ in another process")
        return ColumnRef(shape_of_value(value), UNKNOWN)

    def apply(self, kernel: Callable[..., Value], shape: Shape, *args: Expression) -> Expression:
        """Return the result of a kernel, evaluated at this point of the function."""
        for arg in args:
            checked(arg)
        node = self._once((kernel, args), lambda: Apply(shape, kernel, args))
        self._statements.append(Evaluate(node))
        return node

    def stored(self, item: Item) -> Item:
        """Return a Timestamp as a column holds it; other values unchanged."""
        if not isinstance(item, TimestampParts):
            return item
        kernel, args = number_kernels.timestamps, (item.micros,)
        return self._once((kernel, args), lambda: Apply(TIMESTAMP, kernel, args))

    def fields(self, items: Iterable[Item]) -> tuple[Expression, ...] | None:
        """Return values as the fields of a record; None if a column cannot hold one of them."""
        stored = tuple(map(self.stored, items))
        fields = tuple(item for item in stored if isinstance(item, Expression))
        return fields if len(fields) == len(stored) else None

    def of_union(self, column: ColumnRef, name: str) -> Expression:
        """Return a field of elements of several classes."""
        assert isinstance(column.shape, Union)
        positions = tuple(
            one.names.index(name) if name in one.names else None for one in column.shape.members
        )
        shapes = [
            one.fields[at]
            for one, at in zip(column.shape.members, positions, strict=True)
            if at is not None
        ]
        if not shapes:
            raise NotCompiled(f"it reads .{name} of {column.shape}")
        shape = shapes[0]
        for other in shapes[1:]:
            shape = unified(shape, other)
        if isinstance(shape, Mixed | RecordShape | Union):
            raise NotCompiled(
                f"it reads .{name} of {column.shape}, whose members store it differently"
            )
        node = self._once((OfUnion, column, name), lambda: OfUnion(shape, column, positions, name))
        self._statements.append(Evaluate(node))
        return node

    def record(
        self, record: RecordShape, fields: tuple[Expression, ...], present: Expression | None = None
    ) -> Made:
        """Return a record of values."""
        shape = RecordShape(record.type, record.names, tuple(field.shape for field in fields))
        key = (Made, shape.type, shape.names, fields, present)
        return self._once(key, lambda: Made(shape, fields, present))

    def unpacked_record(self, node: Expression) -> Made | None:
        """Return a record as a record of its fields; None for other values."""
        if isinstance(node, Made):
            return node
        shape = node.shape
        if not isinstance(shape, RecordShape):
            return None
        if isinstance(node, Const):
            return self.record(shape, tuple(map(self.const, node.value)))
        if not isinstance(node, ColumnRef):
            return None
        if self.is_in_document(node):
            self.whole.add(node.argument)
        fields = tuple(
            self.column(one, node.argument, (*node.path, at)) for at, one in enumerate(shape.fields)
        )
        return self.record(shape, fields, self.presence(node))

    def presence(self, node: Expression) -> Expression:
        """Return where a value is not None."""
        if self.is_in_document(node) and not node.path:
            return self.const(True)
        if isinstance(node, Made):
            return self.const(True) if node.present is None else node.present
        if isinstance(node, Const):
            return self.const(node.value is not None)
        return self._once((is_present, node), lambda: Apply(BOOL, is_present, (node,)))

    def is_in_document(self, node: Item) -> TypeGuard[ColumnRef]:
        """Return whether a value is an object in JSON, or all of it."""
        return (
            isinstance(node, ColumnRef)
            and isinstance(node.shape, RecordShape)
            and any(node.argument == one.argument for one in self.documents)
        )

    def item_of(self, node: ColumnRef, key: str) -> tuple[Expression, Expression]:
        """Return where an object in JSON has a key, and the values of it.

        An object without the key has None.
        """
        self.require(node)
        record = node.shape
        assert isinstance(record, RecordShape)
        if key not in record.names:
            self.missing.setdefault(node.argument, set()).add((node.path, key))
            return self.const(False), self.const(None)
        at, count = record.names.index(key), len(record.names)
        is_there = self.column(BOOL, node.argument, (*node.path, at + count))
        return is_there, self.column(record.fields[at], node.argument, (*node.path, at))

    def _is_presence(self, condition: Expression, item: Item) -> bool:
        """Return whether a condition is equivalent to a record being present."""
        if not isinstance(item, Expression) or not isinstance(item.shape, RecordShape | Union):
            return False
        return self.presence(item) is condition

    def replace_absent(self, condition: Expression, stack: list[Item]) -> None:
        """Replace a record on top of the stack by None, if a false condition means it is absent."""
        if stack and self._is_presence(condition, stack[-1]):
            stack[-1] = self.const(None)

    def require(self, node: Expression) -> None:
        """Refuse blocks in which a value is None."""
        present = self.presence(node)
        if not isinstance(present, Const):
            self.require_all(present)
        elif present.value is False:
            raise NotCompiled("it reads a field of None")

    def require_all(self, condition: Expression) -> None:
        """Refuse blocks in which a condition does not hold."""
        check = self._once((require_all, condition), lambda: Apply(BOOL, require_all, (condition,)))
        self._statements.append(Evaluate(check))

    def truth(self, item: Item) -> Expression:
        """Convert by ``bool(item)``.

        Raises:
            NotCompiled: the truth value is undefined over columns.
        """
        if isinstance(item, Either | Select):
            return self.of_both(item, self.truth)
        if isinstance(item, Contents):
            return self.const(bool(item.items))
        if not isinstance(item, Expression):
            raise NotCompiled(f"it tests {named(item)} for truth")
        if isinstance(item, Const):
            return self.const(bool(item.value))
        shape = item.shape
        if isinstance(shape, RecordShape):
            if self.is_in_document(item):
                self.whole.add(item.argument)
            is_true = shape.names or not issubclass(shape.type, tuple | list | dict)
            return self.presence(item) if is_true else self.const(False)
        if shape == BOOL and isinstance(item, Apply) and not _may_be_none(item):
            return item
        if shape in (STR, BYTES):
            return self.apply(text_kernels.truth, BOOL, item)
        if shape in NUMBERS:
            return self.apply(number_kernels.truth, BOOL, item)
        if isinstance(shape, Lists):
            return self.apply(list_kernels.are_filled, BOOL, item)
        if isinstance(shape, Union):
            return self.presence(item)
        raise NotCompiled(f"it tests {shape} for truth")

    def of_both(self, item: Either | Select, function: Callable[[Item], Expression]) -> Expression:
        """Return the result of a function for a conditional value, evaluated on the path taken."""
        self.goes_both_ways()
        with self.collected() as if_yes:
            yes = function(item.yes)
        with self.collected() as if_no:
            no = function(item.no)
        self.branch(item.condition, if_yes, if_no)
        return self.chosen(item.condition, yes, no)

    def negated(self, condition: Expression) -> Expression:
        """Negate a bool that is never None."""
        if isinstance(condition, Const):
            return self.const(not condition.value)
        return self.apply(number_kernels.invert_bool, BOOL, condition)

    def chosen(self, condition: Expression, yes: Expression, no: Expression) -> Expression:
        """Choose between two values of one type by a condition."""
        chosen = self.select(condition, yes, no)
        assert isinstance(chosen, Expression)
        return chosen

    def select(self, condition: Expression, yes: Item, no: Item) -> Item:
        """Choose between two values by a condition."""
        if yes is no:
            return yes
        if isinstance(condition, Const):
            return yes if condition.value else no
        if self._is_presence(condition, yes) and isinstance(no, Const) and no.value is None:
            return yes
        self.goes_both_ways()
        yes = self.const(True) if yes is condition else yes
        no = self.const(False) if no is condition else no
        for kind in (TimestampParts, DurationParts):
            if isinstance(yes, kind) and isinstance(no, kind):
                return kind(self.chosen(condition, yes.micros, no.micros))
        if isinstance(yes, IntervalParts) and isinstance(no, IntervalParts):
            start = self.chosen(condition, yes.start.micros, no.start.micros)
            end = self.chosen(condition, yes.end.micros, no.end.micros)
            return IntervalParts(TimestampParts(start), TimestampParts(end))
        if isinstance(yes, Stamped) and isinstance(no, Stamped):
            time = self.chosen(condition, yes.time.micros, no.time.micros)
            return Stamped(self.select(condition, yes.value, no.value), TimestampParts(time))
        one, other = self.stored(yes), self.stored(no)
        if not isinstance(one, Expression) or not isinstance(other, Expression):
            return Either(condition, yes, no)
        return self._selected(condition, one, other)

    def _selected(self, condition: Expression, yes: Expression, no: Expression) -> Item:
        if isinstance(yes.shape, RecordShape) or isinstance(no.shape, RecordShape):
            record = self._selected_record(condition, yes, no)
            return Either(condition, yes, no) if record is None else record
        shape = unified(yes.shape, no.shape)
        if isinstance(shape, Mixed | Union | Constants | Table):
            return Either(condition, yes, no)
        for one in (yes, no):
            checked(one)
        key = (Select, condition, yes, no)
        return self._once(key, lambda: Select(shape, condition, yes, no))

    def _selected_record(
        self, condition: Expression, yes: Expression, no: Expression
    ) -> Expression | None:
        """Choose between two records field by field; None if their types do not fit."""
        one, other = self.unpacked_record(yes), self.unpacked_record(no)
        like = one or other
        if (
            like is None
            or (one is None and yes.shape != NONE)
            or (other is None and no.shape != NONE)
        ):
            return None
        record = like.record
        kinds = {(made.record.type, made.record.names) for made in (one, other) if made}
        if len(kinds) > 1:
            return None
        nothing = (self.const(None),) * len(record.names)
        fields = []
        for pair in zip(
            one.fields if one else nothing, other.fields if other else nothing, strict=True
        ):
            field = self.select(condition, *pair)
            if not isinstance(field, Expression):
                return None
            fields.append(field)
        presence = self.chosen(condition, self._presence(one), self._presence(other))
        is_always = isinstance(presence, Const) and presence.value is True
        return self.record(record, tuple(fields), None if is_always else presence)

    def _presence(self, record: Made | None) -> Expression:
        return self.const(False) if record is None else self.presence(record)

    def fail(self, reason: str) -> None:
        """Refuse blocks of which an element gets here."""
        self._statements.append(Fail(reason))

    def update(self, updater: MetricUpdater, amount: Expression, *, adds_up: bool) -> None:
        """Update a metric by the amount of each element that gets here, or by the sum."""
        checked(amount)
        self.updates += 1
        self._statements.append(Update(updater, amount, adds_up))

    @contextmanager
    def collected(self) -> Iterator[list[Statement]]:
        """Collect the statements made within the context, in place of adding them."""
        outer, self._statements = self._statements, []
        parsed, self._parsed = self._parsed, dict(self._parsed)
        try:
            yield self._statements
        finally:
            self._statements, self._parsed = outer, parsed

    def branch(self, condition: Expression, yes: list[Statement], no: list[Statement]) -> None:
        """Add a branch with the statements of both paths."""
        if isinstance(condition, Const):
            self._statements += yes if condition.value else no
        elif yes or no:
            self._statements.append(Branch(condition, tuple(yes), tuple(no)))


def columns_in(node: Expression) -> Iterator[ColumnRef]:
    """Yield the columns that an expression is computed from."""
    match node:
        case ColumnRef():
            yield node
        case OfUnion():
            yield node.column
        case Apply():
            for arg in node.args:
                yield from columns_in(arg)
        case Select():
            for part in (node.condition, node.yes, node.no):
                yield from columns_in(part)
        case Made():
            for part in node.fields:
                yield from columns_in(part)
        case Collected():
            yield ColumnRef(node.shape, FIRST_MADE)  # Those of its loops.


def is_present(value: Value) -> Value:
    """Return where a value is not None; the constant True if it is nowhere None."""
    assert isinstance(value, Vector)
    return True if value.nulls is None else Vector(~value.nulls)


def require_all(present: Value) -> Value:
    """Refuse the block unless all values are True."""
    held = present.data.all() if isinstance(present, Vector) else present
    if not held:
        raise FallBack("a value is None")
    return True


def named(item: Item) -> str:
    """Describe an item for a reason."""
    if isinstance(item, Expression):
        return str(item.shape)
    if isinstance(item, Either):
        return either(named(item.yes), named(item.no))
    if isinstance(item, Listed) and any(isinstance(one, IntervalParts) for one in item.items):
        return "a window"
    if isinstance(item, Contents):
        return f"a {item.kind.__name__}, which may change"
    return _NAMES.get(type(item), "an object")


_NAMES: dict[type, str] = {
    Listed: "a list",
    Generated: "a generator",
    Nothing: "nothing",
    Stamped: "a TimestampedValue",
    TimestampParts: "a Timestamp",
    DurationParts: "a Duration",
    IntervalParts: "a window",
    ClassOf: "a class",
}


def checked(node: Expression) -> None:
    """Refuse a constant that no column can hold."""
    if isinstance(node, Const):
        _check_constant(node.value)


def _check_constant(value: Any) -> None:
    if isinstance(value, tuple):
        for item in value:
            _check_constant(item)
    if type(value) is int and not number_kernels.SMALLEST <= value <= number_kernels.LARGEST:
        raise NotCompiled("an int exceeds 64 bits")
    if type(value) is str:
        try:
            value.encode()
        except UnicodeEncodeError:
            raise NotCompiled("a str contains a lone surrogate") from None


def _may_be_none(item: Apply) -> bool:
    """Return whether a bool is an item of a list or of a dict."""
    is_item = any(isinstance(argument.shape, Lists | Table) for argument in item.args[:1])
    return is_item and item.kernel is not list_kernels.are_filled
