def validation(model, rank, loader):
    ...
    dist.reduce(loss_sum, 0, op=dist.ReduceOp.SUM)
    val_loss = loss_sum[0] / loss_sum[1]
    return val_loss

    # per epoch
    curr = validation(model, rank, val_loader)
    if cfg.save_model and curr < best_val_loss:
        policy = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
        with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, policy):
            cpu_state = model.state_dict()
        ...
    best_val_loss = min(best_val_loss, curr)
