"""The spelling an API server would give back."""

import pytest

from catalog.quantities import amount, canonical

# What k8s.io/apimachinery v0.34.3 prints: ParseQuantity(written).String().
APIMACHINERY = """
0.1Gi 107374182400m
1.1Mi 1153433600m
0.3Ki 307200m
0.9Mi 943718400m
1.00001Mi 1048586485760u
0.5Ki 512
1.25Gi 1280Mi
1.5Gi 1536Mi
1.0Gi 1Gi
30720Gi 30Ti
960Gi 960Gi
1024Ki 1Mi
1000Ki 1000Ki
0Gi 0
0 0
0.0005 500u
0.5 500m
0.1 100m
.5 500m
5. 5.
1.5 1500m
7168 7168
1024 1024
1000 1k
1000k 1M
1500m 1500m
2000m 2
64G 64G
1E 1E
100n 100n
0.5n 1n
1000000n 1m
100000n 100u
1234567n 1234567n
5u 5u
1500u 1500u
0.0000000001 1n
129e6 129e6
1e3 1e3
1E3 1E3
1e4 10e3
1e2 100
12e4 120e3
2.5e3 2500
1000e3 1e6
12e-3 12e-3
1e-9 1e-9
1e0 1e0
10e-1 1
1e18 1e18
9223372036854775807 9223372036854775807
"""


@pytest.mark.parametrize("line", APIMACHINERY.split("\n")[1:-1])
def test_a_quantity_is_spelled_as_the_server_spells_it(line: str) -> None:
    written, read = line.split()
    assert canonical(written) == read
    assert canonical(read) == read
    # A billionth is the least there is.
    assert 0 <= amount(read) - amount(written) < amount("1n")


def test_quantities_compare_as_numbers() -> None:
    words = ["1n", "1u", "1m", "500m", "1", "1e2", "1k", "1Ki", "1M", "1Mi", "1.5Gi", "2Gi"]
    numbers = [amount(each) for each in words]
    assert numbers == sorted(numbers)
    assert amount("2000m") == amount("2")
    assert amount("1024Mi") == amount("1Gi")
    assert amount("129e6") == amount("129M")


@pytest.mark.parametrize("text", ["", ".", "64 GB", "1K", "Gi", "-1", "1e", "e3", "1.2.3", "1mi"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no quantity such as"):
        canonical(text)
