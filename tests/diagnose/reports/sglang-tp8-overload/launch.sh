SGLANG_REQ_WAITING_TIMEOUT=10 python -m sglang.launch_server --model-path Qwen3-32B --tp 8 --watchdog-timeout 300
# load: bench_serving --request-rate 40, far above what one replica can do; stands still after 80 s, all GPUs at 100 %
