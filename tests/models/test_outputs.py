"""Output descriptions are validated at construction."""

import pytest
from trninfer.models.errors import ModelError
from trninfer.models.outputs import Output


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (("boxes",), "kind is boxes, but boxes are missing"),
        (("points",), "kind is 'points'; allowed: classes, sigmoid, values, boxes"),
        (("classes",), "scores is ''; allowed: raw, softmax, log_softmax"),
        (("values", "raw"), "scores is 'raw'"),
    ],
)
def test_fields_are_checked(fields: tuple[str, ...], says: str) -> None:
    with pytest.raises(ModelError, match=says):
        Output(*fields)
