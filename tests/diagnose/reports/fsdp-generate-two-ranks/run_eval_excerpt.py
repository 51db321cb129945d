    with torch.no_grad():
        out = model.generate(**batch, max_new_tokens=512, do_sample=False)   # model is FSDP
    preds.append(out)
    dist.barrier()
