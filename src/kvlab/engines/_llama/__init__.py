"""What a llama-server holds and prints, for every engine that runs one."""
