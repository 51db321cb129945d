mpirun --allow-run-as-root -np 2 --mca btl tcp,self --mca btl_tcp_if_exclude eth0 -H rc-17,rc-19 -x NCCL_DEBUG=INFO -x LD_LIBRARY_PATH -x NCCL_IB_HCA=mlx5_bond_0:1 -x NCCL_P2P_DISABLE=0 -x NCCL_IB_DISABLE=0 ./build/all_reduce_perf -b 9 -e 128M -f 2 -g 1
# lspci: no ACSCtl line with SrcValid+ on either node
