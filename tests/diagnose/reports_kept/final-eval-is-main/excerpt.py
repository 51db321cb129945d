    # scripts/train_sft.py
    model = ddp_wrap(model, ctx)
    ...
    for step in range(cfg.max_steps):
        ...
        if (step + 1) % cfg.eval_every == 0:
            val = evaluate(model, val_loader, ctx)        # all ranks
            if ctx.is_main:
                print(f"step {step+1:4d}/{cfg.max_steps} | eval_loss {val:.4f}")

    if ctx.is_main:
        print("training finished, running final evaluation")
        with open(out / "final.pt", "wb") as f:
            final = evaluate(model, val_loader, ctx)
            torch.save({"model": unwrap(model).state_dict(), "eval_loss": final}, f)
    cleanup()
