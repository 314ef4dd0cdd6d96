"""Load on an OpenAI-compatible server: prompts, schedule, client, metrics sampling, summary."""
