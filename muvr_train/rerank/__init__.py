"""Multimodal language models that judge a query against a video: questions, answerers, answers, scores."""
