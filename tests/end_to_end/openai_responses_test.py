"""The official OpenAI client's Responses API against a real model."""

import unittest

import openai
from support import ServerCase


class SmolLm2(ServerCase):
    def setUp(self):
        self.client = openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0)

    def test_streams_three_colors(self):
        with self.client.responses.stream(model=self.NAME, input="Name three colors.", temperature=0,
                                          max_output_tokens=40) as stream:
            types = [event.type for event in stream]
            response = stream.get_final_response()
        for color in ("red", "blue", "green"):
            self.assertIn(color, response.output_text.lower())
        self.assertEqual(types[0], "response.created")
        self.assertIn(types[-1], ("response.completed", "response.incomplete"))
        self.assertGreater(response.usage.output_tokens, 0)

    def test_a_second_turn_goes_on_from_the_first_and_reuses_it(self):
        story = "".join(f"Jar {i} holds {i * 3 % 23} beans and a leaf. " for i in range(60))
        first = self.client.responses.create(model=self.NAME, input=story + "How many jars?", temperature=0,
                                             max_output_tokens=16)
        second = self.client.responses.create(model=self.NAME, input="And leaves?", temperature=0,
                                              max_output_tokens=16, previous_response_id=first.id)
        self.assertGreater(second.usage.input_tokens, first.usage.input_tokens)
        self.assertGreaterEqual(second.usage.input_tokens_details.cached_tokens, first.usage.input_tokens - 64)
        whole = self.client.responses.create(
            model=self.NAME, temperature=0, max_output_tokens=16,
            input=[{"role": "user", "content": story + "How many jars?"}, *first.output,
                   {"role": "user", "content": "And leaves?"}])
        self.assertEqual(whole.output_text, second.output_text)

    def test_stored_responses_are_read_and_deleted(self):
        made = self.client.responses.create(model=self.NAME, input="Hello", max_output_tokens=16)
        self.assertEqual(self.client.responses.retrieve(made.id).output_text, made.output_text)
        self.assertEqual(len(self.client.responses.input_items.list(made.id).data), 1)
        self.client.responses.delete(made.id)
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.retrieve(made.id)


if __name__ == "__main__":
    unittest.main()
