import lightning as L
...
    trainer.fit(model, datamodule=dm)
    if trainer.is_global_zero:
        log.info("saving final checkpoint to %s", final)
        trainer.save_checkpoint(final)
        link_alias(final)
    trainer.strategy.barrier("checkpoint-alias-finalize")
    if cfg.eval:
        evaluate(trainer, model, dm)
