python -m sglang.launch_server --model-path GLM-5.2-FP8 --tp 4 --speculative-algorithm EAGLE --enable-hierarchical-cache --hicache-storage-backend mooncake --hicache-storage-prefetch-policy timeout
