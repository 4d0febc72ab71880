"""Networks without their saturating output functions."""

from trninfer.models.before_answers import squeezed_outputs, without_squeezing
from trninfer.models.inputs import FeatureInput
from trninfer.models.layers import Activation, Dense
from trninfer.models.network import Network
from trninfer.models.outputs import NamedOutput, Output


def test_functions_of_outputs_that_nothing_reads_are_left_out() -> None:
    layers = (
        Dense("hidden", 6, 4, "sigmoid"),
        Dense("one", 4, 3, "sigmoid", inputs=("hidden",)),
        Dense("two", 4, 3, inputs=("hidden",)),
        Activation("last", "hardsigmoid", (0.2, 0.5), inputs=("two",)),
    )
    others = (
        NamedOutput("one", "one", (3,), Output("sigmoid"), ("a", "b", "c")),
        NamedOutput("hidden", "hidden", (4,), Output("values"), ()),
    )
    network = Network("n", FeatureInput(6), layers, (), Output("values"), others, "last", (3,))
    squeezed = squeezed_outputs(network)
    assert squeezed == {"one": "sigmoid", "last": "hardsigmoid"}
    bare = without_squeezing(network, squeezed)
    assert [layer.activation for layer in bare.layers] == ["sigmoid", "identity", "identity", "identity"]
