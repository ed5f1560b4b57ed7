"""The official Anthropic client against a real model."""

import unittest

import anthropic
from support import ServerCase


class SmolLm2(ServerCase):
    def setUp(self):
        self.client = anthropic.Anthropic(base_url=self.url, api_key="none", max_retries=0)

    def options(self, text="Name three colors.", **more):
        # temperature goes as an extra field: not every version of the SDK knows it
        return {"model": self.NAME, "max_tokens": 40, "messages": [{"role": "user", "content": text}],
                "extra_body": {"temperature": 0}, **more}

    def test_streams_three_colors(self):
        with self.client.messages.stream(**self.options()) as stream:
            text = "".join(stream.text_stream)
            message = stream.get_final_message()
        for color in ("red", "blue", "green"):
            self.assertIn(color, text.lower())
        self.assertEqual(message.content[0].text, text)
        self.assertIn(message.stop_reason, ("end_turn", "max_tokens"))
        self.assertGreater(message.usage.input_tokens + message.usage.cache_read_input_tokens, 0)
        self.assertGreater(message.usage.output_tokens, 0)

    def test_streamed_and_whole_answers_are_the_same(self):
        options = self.options("Tell me about the sea.", system="You are brief.")
        with self.client.messages.stream(**options) as stream:
            streamed = stream.get_final_text()
        self.assertEqual(streamed, self.client.messages.create(**options).content[0].text)

    def test_the_second_turn_reads_the_first_from_the_bank(self):
        story = "".join(f"Drawer {i} holds {i * 5 % 29} spoons and a map. " for i in range(60))
        system = [{"type": "text", "text": story, "cache_control": {"type": "ephemeral"}}]
        first = self.client.messages.create(**self.options("How many drawers?", system=system))
        self.assertGreater(first.usage.cache_creation_input_tokens, 500)
        self.assertEqual(first.usage.cache_read_input_tokens, 0)
        turns = [{"role": "user", "content": "How many drawers?"},
                 {"role": "assistant", "content": first.content[0].text}, {"role": "user", "content": "And maps?"}]
        second = self.client.messages.create(**{**self.options(system=story), "messages": turns})
        written = first.usage.cache_creation_input_tokens
        self.assertGreaterEqual(second.usage.cache_read_input_tokens, written)

    def test_counts_tokens_as_the_message_uses_them(self):
        options = self.options(system="You are brief.")
        count = self.client.messages.count_tokens(
            model=self.NAME, system=options["system"], messages=options["messages"])
        usage = self.client.messages.create(**options).usage
        self.assertEqual(count.input_tokens, usage.input_tokens + usage.cache_read_input_tokens)

    def test_a_stop_sequence_is_named(self):
        message = self.client.messages.create(**self.options(stop_sequences=["2.", "Blue", "blue"]))
        self.assertEqual(message.stop_reason, "stop_sequence")
        self.assertIn(message.stop_sequence, ("2.", "Blue", "blue"))

    def test_errors_have_the_clients_own_types(self):
        with self.assertRaises(anthropic.NotFoundError):
            self.client.messages.create(**{**self.options(), "model": "nope"})
        with self.assertRaises(anthropic.BadRequestError) as caught:
            self.client.messages.create(**self.options("x " * 20000))
        self.assertIn("prompt is too long", str(caught.exception))

    def test_lists_the_models(self):
        (model,) = self.client.models.list().data
        self.assertEqual((model.id, model.display_name), (self.NAME, self.NAME))


if __name__ == "__main__":
    unittest.main()
