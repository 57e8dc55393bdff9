"""What is shown of options: what tells them apart, and neither secrets nor what changes no result."""

import pytest
from pydantic import SecretStr

from ragtrial.components.embedders.base import EMBEDDERS
from ragtrial.components.embedders.endpoint import EndpointEmbedder
from ragtrial.engines import COLLECTIONS, STORES
from ragtrial.engines.servers import ServerStore
from ragtrial.options import Options

KINDS = {
    f"{family.noun} {name}": kind for family in (STORES, COLLECTIONS, EMBEDDERS) for name, kind in family.members()
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_options_that_change_no_result_are_secrets_limits_or_not_shown(kind: type[Options]) -> None:
    left_out = (kind.unhashed & set(kind.model_fields)) - {"kind", *kind.named_by}
    given = dict.fromkeys(kind.named_by, "shown") | dict.fromkeys(left_out, "hidden")
    summary = kind.model_construct(set(given), **given).summary()
    assert "hidden" not in summary
    assert not [name for name in left_out if f"{name}=" in summary]
    assert not kind.named_by or "shown" in summary
    wanted = {name for name, field in kind.model_fields.items() if SecretStr.__name__ in repr(field.annotation)}
    wanted |= {"timeout", "settle_within", "batch_size", "concurrency", "retries"} & set(kind.model_fields)
    assert wanted <= kind.unhashed


def test_the_summary_of_a_store_on_a_server_says_where_it_is_and_how_it_is_built() -> None:
    store = STORES["qdrant"].model_validate({"url": "http://127.0.0.1:6333", "timeout": 5, "space": "ip"})
    assert isinstance(store, ServerStore)
    assert store.summary() == "qdrant space=ip url=http://127.0.0.1:6333"
    embedder = EMBEDDERS["openai"].model_validate({"model": "m", "timeout": 5, "retries": 1, "batch_size": 3})
    assert isinstance(embedder, EndpointEmbedder)
    assert embedder.summary() == "openai model=m"
